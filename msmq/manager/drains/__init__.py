"""Drains: queues whose messages are moved to another queue manager while senders go on."""
