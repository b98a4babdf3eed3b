"""Reading for the pipeline: streams, offsets and slices, without Spark."""
