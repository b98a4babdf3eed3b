"""The queue manager service: runs the cores and performs their effects."""
