"""Packets of every protocol as JSON objects, and the files that captures come in."""
