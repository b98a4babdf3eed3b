"""Metrics, health and the console over HTTP."""
