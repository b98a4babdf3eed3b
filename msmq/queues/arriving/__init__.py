"""Enqueue of messages. [MS-MQDMPR] 3.1.7.1.9."""
