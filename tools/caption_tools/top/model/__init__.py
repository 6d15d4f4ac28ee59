"""The figures and the table of `gateway top`, without a network, a clock or a terminal."""
