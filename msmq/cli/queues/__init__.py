"""Verbs about the queues of a queue manager, its outgoing queues among them."""
