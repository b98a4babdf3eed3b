"""Verbs about messages in files: export, import, and packets of captures."""
