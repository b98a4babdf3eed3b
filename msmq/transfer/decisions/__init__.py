"""Decisions about messages that leave and about acknowledgements, each a function of facts."""
