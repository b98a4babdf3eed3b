"""The public doubles keep the promises of what they stand for."""
