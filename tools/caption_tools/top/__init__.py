"""`gateway top`: a live view of one or several gateways in the terminal."""
