"""Binding to a directory by Kerberos: GSS-SPNEGO with the key of an account from a keytab. RFC 4513 5.2.1."""
