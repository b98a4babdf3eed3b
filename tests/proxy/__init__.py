"""The recording proxy."""
