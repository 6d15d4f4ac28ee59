"""Tools for operators of Caption Gateway: load tests, replayed meetings, tuning and planning."""
