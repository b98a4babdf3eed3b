"""Shadows of queues."""
