"""Packets and events in Parquet files, written from a store and sent again from there; no Spark."""
