"""[MS-MQDMPR] the directory as the queue manager sees it: its objects, and the events that reach it.

Pure, as the rest of the queue manager core: a L{msmq.membership.requests.Procedure} says whom it wants
to ask what, and is told the answer and the time.
"""
