"""The architectures that led to this one, each as small as it can be and as fast as it honestly is.

For measuring only: nothing that serves imports anything from here.
"""
