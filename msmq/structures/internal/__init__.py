"""The internal packets of sessions, and the ping; one file per packet. [MS-MQQB] 2.2."""
