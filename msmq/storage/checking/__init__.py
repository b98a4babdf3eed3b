"""Verifies stores, and repairs those that can be repaired."""
