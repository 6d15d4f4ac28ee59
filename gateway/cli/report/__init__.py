"""Load on a running gateway, and the percentiles, charts and pages that reports share."""
