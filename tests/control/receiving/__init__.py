"""The control API: receives, peeks and browsing."""
