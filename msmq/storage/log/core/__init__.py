"""The pure part of the log: bytes in, decisions out; no file, no clock, no reactor."""
