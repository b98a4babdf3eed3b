"""Export of packets and events to Parquet files, and import into queues, without Spark."""
