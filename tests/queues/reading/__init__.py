"""Reading of queues: cursors, descriptors, positions by lookup identifier."""
