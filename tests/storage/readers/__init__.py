"""Readers of a store during the run of its server."""
