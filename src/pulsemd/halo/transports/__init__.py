"""The transports, one module each; see `pulsemd.halo.transport.TRANSPORTS`."""
