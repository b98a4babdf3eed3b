"""Security of messages: keys, ciphers, signatures, certificates, access."""
