"""Signatures, encryption and access control of messages between queue managers."""
