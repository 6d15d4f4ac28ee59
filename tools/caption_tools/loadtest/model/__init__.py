"""The workload of a load test: what is sent, what is counted, and the report."""
