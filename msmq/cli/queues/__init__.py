"""Verbs about local and outgoing queues and their access control."""
