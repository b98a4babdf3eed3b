"""Stored packets as records: their schema, rows and Arrow batches; Spark only in C{msmq.pipeline.spark}."""
