"""Access to the web endpoint."""
