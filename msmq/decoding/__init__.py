"""Decodes packets of all protocols to JSON objects, and reads capture files."""
