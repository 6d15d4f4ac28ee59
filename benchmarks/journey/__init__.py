"""The architectures that preceded this gateway, each as small and as fast as it can be.

They are only measured: no module that serves imports from here.
"""
