"""Verbs about the queue manager itself: its status, sessions, configuration and certificates."""
