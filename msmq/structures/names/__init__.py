"""Format names, path names and queue names. [MS-MQMQ] 2.1."""
