"""Metrics, health and the console over HTTP, served at C{[listen] web}."""
