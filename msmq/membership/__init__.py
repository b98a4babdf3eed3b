"""Directory objects, and the procedures that read and change them. [MS-MQDMPR].

Pure, as the rest of the queue manager core: a L{msmq.membership.requests.Procedure} yields requests, and is
resumed with their results and the time.
"""
