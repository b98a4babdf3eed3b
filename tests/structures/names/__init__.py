"""Path names, format names and queue names ([MS-MQMQ] 2.1)."""
