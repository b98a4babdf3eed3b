"""[MS-MQQB] 3.1.1.3 caches of keys and certificates, and the choice of ciphers."""
