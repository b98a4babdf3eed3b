"""Binding to a directory with a keytab."""
