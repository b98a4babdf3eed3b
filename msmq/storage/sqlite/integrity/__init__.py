"""Checksums of a file of SQLite, and their verification."""
