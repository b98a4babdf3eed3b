"""Data pipeline: stored packets as rows, Arrow batches and Parquet; Spark only in C{msmq.pipeline.spark}."""
