"""Directory providers that are part of msmq: an enterprise file, LDAP, memory."""
