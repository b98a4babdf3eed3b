"""Queue administration, and what it reports."""
