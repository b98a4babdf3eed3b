"""[MS-MQDSSM] 3.1.6.10 and 3.1.6.11 directory objects of LDAP entries, and entries of directory objects.

All of it but the log of faults is pure: L{msmq.directory.ldap.operations} reads and writes the entries.
"""
