"""[MS-MQDMPR] directory objects, and the procedures of a queue manager that read and change them.

Pure, as the rest of the queue manager core: a L{msmq.membership.requests.Procedure} yields requests, and is
resumed with their results and the time.
"""
