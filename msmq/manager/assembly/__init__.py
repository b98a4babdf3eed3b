"""Composition of a queue manager: constructs its parts, in groups, and connects them."""
