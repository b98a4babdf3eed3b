"""Programs that benchmarks start as processes: applications, peers, and what they are compared with."""
