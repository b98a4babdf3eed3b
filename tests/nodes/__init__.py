"""Queue managers joined by an in-memory network."""
