"""The cores of exactly-once transfer."""
