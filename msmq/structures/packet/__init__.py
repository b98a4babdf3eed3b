"""The UserMessage packet and its headers. [MS-MQMQ] 2.2.19 and 2.2.20.

[MS-MQQB] 1.8: no field is extensible by vendors, so reserved bits and padding carry nothing of our own.
"""
