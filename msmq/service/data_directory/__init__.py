"""The data directory of a server: lock and identity; check, conversion and migration of its store."""
