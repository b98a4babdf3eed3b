"""The archive: everything that a store has logged, journaled or reported, in Parquet and Arrow files."""
