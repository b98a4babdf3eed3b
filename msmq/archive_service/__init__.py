"""The archive of a server, kept by a process of its own."""
