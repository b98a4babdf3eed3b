"""The jobs of the pipeline, each beside a naive calculation of the same."""
