"""The SQLite store: history, damage, crashes, versions."""
