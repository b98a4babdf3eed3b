"""The jobs: pure functions from the tables of an estate to others."""
