"""Speech of simulated people: texts, their arrivals, and a simulated recogniser."""
