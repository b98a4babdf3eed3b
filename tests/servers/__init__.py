"""Real servers that tests start, each for itself, out of the reach of everybody else."""
