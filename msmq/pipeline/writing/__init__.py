"""Writing for the pipeline: rows as messages, through a running queue manager, without Spark."""
