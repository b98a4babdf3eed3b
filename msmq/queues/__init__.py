"""[MS-MQDMPR] the queue manager core: queues, their messages, and the readers that wait for them.

Pure: it is told the time, answers with changes for the store and effects for its caller, and reaches nothing.
"""
