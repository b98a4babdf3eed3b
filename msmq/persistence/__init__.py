"""Persistent values of the cores: changes, queue definitions, state records."""
