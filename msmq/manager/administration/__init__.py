"""Administration of queues: creation, properties, purge, deletion, removal of messages."""
