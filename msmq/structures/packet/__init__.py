"""The UserMessage packet and its headers. [MS-MQMQ] 2.2.19 and 2.2.20."""
