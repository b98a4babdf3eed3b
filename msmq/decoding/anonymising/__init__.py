"""Captures that may be shared: names, addresses, identifiers and contents replaced, the structure kept."""
