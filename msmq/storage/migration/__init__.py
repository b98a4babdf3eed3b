"""Migration of a message store to another kind of store."""
