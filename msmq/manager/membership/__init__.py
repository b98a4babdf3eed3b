"""The queue manager as a member of a directory."""
