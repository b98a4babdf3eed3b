"""Queue manager core: queues, their messages, and waiting readers. [MS-MQDMPR] 3.1.

It is pure: it takes the time as an argument, and returns changes for the store and effects for its caller.
"""
