"""The archive: writing, reading, its worker and its commands."""
