"""Bodies as columns: JSON texts, and structs."""
