"""[MS-MQDMPR] the queue manager core: queues, their messages, and the readers that wait for them.

Pure: it takes the time as an argument, and returns changes for the store and effects for its caller.
"""
