"""Packets and their headers ([MS-MQMQ] 2.2)."""
