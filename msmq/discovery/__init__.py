"""Directory service discovery: packets, client and server. [MS-MQSD]."""
