"""What hostile input may cost a real server: bytes of log, memory, descriptors, disk, processor time."""
