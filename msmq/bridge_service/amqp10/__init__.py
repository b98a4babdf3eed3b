"""AMQP 1.0 through the engine of qpid-proton, on Twisted's transports."""
