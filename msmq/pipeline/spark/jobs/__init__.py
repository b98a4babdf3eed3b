"""Spark jobs: pure functions from the tables of an estate to result tables."""
