"""Removal of messages from queues: transactions, expiry, moves, purge, deletion. [MS-MQDMPR] 3.1.7."""
