"""The stores of messages."""
