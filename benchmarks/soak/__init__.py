"""Proof of endurance: a gateway under load, churn and faults, and what came of it."""
