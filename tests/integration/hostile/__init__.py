"""A server process that hostile peers attack."""
