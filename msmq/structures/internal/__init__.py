"""[MS-MQQB] 2.2 the internal packets of sessions, and the ping; one file per packet."""
