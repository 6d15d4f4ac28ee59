"""Percentiles, charts, tables and pages that the reports of several tools share."""
