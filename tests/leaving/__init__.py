"""Moves of endpoints to other queue managers and brokers, with real processes."""
