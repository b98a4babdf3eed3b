"""Certificates, signatures, ciphers and keys: the only place that knows the libraries for them."""
