"""Senders: a queue manager without queues of its own that reports when each message has been delivered."""
