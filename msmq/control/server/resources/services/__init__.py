"""Resources about what a server does besides queues: its archive, drains, shadows."""
