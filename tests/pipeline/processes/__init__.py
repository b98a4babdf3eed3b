"""Tests of the pipeline with processes: drivers that are killed, a cluster, an estate, a notebook."""
