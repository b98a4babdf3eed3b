"""Metrics and health over HTTP, served at C{[listen] web}."""
