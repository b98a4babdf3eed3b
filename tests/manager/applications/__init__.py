"""A queue manager and its applications."""
