"""Packets and captures as JSON objects."""
