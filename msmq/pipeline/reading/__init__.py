"""What is read for the pipeline: which streams, which offsets, in which parts; no Spark."""
