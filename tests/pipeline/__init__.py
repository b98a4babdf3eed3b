"""The pipeline: from stored packets to records, files and DataFrames."""
