"""Names, headers and the other structures of [MS-MQMQ]."""
