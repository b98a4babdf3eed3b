"""Decisions about arriving and outgoing messages and acknowledgements, as functions of facts."""
