"""Enqueue of messages: admission, packets, acknowledgements. [MS-MQDMPR] 3.1.7.1.9."""
