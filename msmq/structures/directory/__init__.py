"""Structures that a directory holds: keys and certificates. [MS-MQMQ] 2.2."""
