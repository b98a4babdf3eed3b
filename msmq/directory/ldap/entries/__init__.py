"""Conversion between LDAP entries and directory objects. [MS-MQDSSM] 3.1.6.10 and 3.1.6.11.

All but the fault log is pure: L{msmq.directory.ldap.operations} reads and writes the entries.
"""
