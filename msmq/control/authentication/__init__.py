"""Who calls the control API: tokens, credentials of a socket, and the audit log."""
