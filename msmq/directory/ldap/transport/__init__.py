"""LDAP itself: messages, one connection with many requests, the servers that are reached, what they answer.

Nothing here knows of queues: L{wire<msmq.directory.ldap.transport.wire>} and
L{protocol<msmq.directory.ldap.transport.protocol>} exchange messages, and
L{connection<msmq.directory.ldap.transport.connection>} reaches one of the servers when it is needed.
"""
