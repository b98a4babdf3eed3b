"""What applications ask for: open queues, sends, receives, transactions."""
