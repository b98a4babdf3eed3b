"""[MS-MQDMPR] queue manager core: queues, their messages, and waiting readers.

It is pure: it takes the time as an argument, and returns changes for the store and effects for its caller.
"""
