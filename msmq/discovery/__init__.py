"""[MS-MQSD]: the packets of directory server discovery."""
