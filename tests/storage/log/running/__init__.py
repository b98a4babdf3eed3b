"""A record log while it is open: failures, threads and files."""
