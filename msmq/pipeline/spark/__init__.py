"""What runs in Spark; no other package imports it."""
