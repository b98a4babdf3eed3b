"""Live figures: the last hour in memory, and streams of server-sent events."""
