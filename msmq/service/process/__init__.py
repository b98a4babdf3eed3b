"""The process of a server: log output, event identifiers, collector, descriptors, reactor turns, systemd."""
