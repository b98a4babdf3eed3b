"""Authentication of callers of the control API: tokens, socket credentials, and the audit log."""
