"""Tests with real sockets and processes; few, and last."""
