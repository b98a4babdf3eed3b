"""The parts of the directory behind LDAP."""
