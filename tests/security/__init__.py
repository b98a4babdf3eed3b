"""What secures messages: keys, ciphers, signatures, certificates, access."""
