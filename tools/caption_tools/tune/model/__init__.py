"""The load to tune for, the comparison of steps, and the report."""
