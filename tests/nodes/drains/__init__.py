"""Queues that are drained to another queue manager."""
