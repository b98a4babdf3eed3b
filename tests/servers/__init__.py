"""Real servers that tests start, each by itself, unreachable for all others."""
