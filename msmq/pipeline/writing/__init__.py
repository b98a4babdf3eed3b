"""What is sent from the pipeline: rows as messages, through a queue manager that runs; no Spark."""
