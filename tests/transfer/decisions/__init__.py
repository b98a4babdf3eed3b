"""Decisions about messages that leave and about acknowledgements, as tables."""
