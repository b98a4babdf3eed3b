"""Metrics and health over HTTP: what C{[listen] web} serves."""
