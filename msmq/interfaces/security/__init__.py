"""Interfaces of security: access control, encryption, signatures, TLS, and authenticated addresses."""
