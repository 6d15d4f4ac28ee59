"""The model of capacity: speech, measured figures and formulas. Pure."""
