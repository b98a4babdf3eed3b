"""The jobs of the pipeline, each compared with a naive calculation of the same."""
