"""What benchmarks share: rounds and tables, processes that take part, servers, packets."""
