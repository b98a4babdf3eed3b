"""Backups of stores: one file that is complete, verified, and extended by the next backup."""
