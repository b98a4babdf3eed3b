"""Certificates, signatures, ciphers and keys: the only room that uses cryptographic libraries."""
