"""Caches of keys and certificates, and the choice of ciphers. [MS-MQQB] 3.1.1.3."""
