"""Load on a running gateway: who comes, what they say, and what their readers had to wait."""
