"""Shadows: messages of a queue are copied to a second consumer, which is compared with the first."""
