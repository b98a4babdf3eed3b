"""A queue manager and its undeliverable messages."""
