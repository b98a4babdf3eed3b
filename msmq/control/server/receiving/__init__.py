"""Receiving one message, or a stream of records that is confirmed receipt by receipt."""
