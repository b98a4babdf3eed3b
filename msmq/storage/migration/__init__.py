"""Moves everything that a store keeps to a store of another kind."""
