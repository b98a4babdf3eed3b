"""[MS-MQQB] 2.2: every packet that a session, or a ping beside it, carries; one file per packet."""
