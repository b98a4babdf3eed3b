"""TOML files with line numbers: every problem is reported with its line."""
