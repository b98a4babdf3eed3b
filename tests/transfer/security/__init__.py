"""The caches and choices of message security."""
