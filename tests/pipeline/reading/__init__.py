"""Offsets, slices and losses of reads, without a session of Spark."""
