"""Outgoing queues: dispatch, states, pauses, redirects, limits."""
