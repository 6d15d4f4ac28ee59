"""The model of capacity: speech, measured figures, formulas and a simulation. Pure."""
