"""LDAP client: messages, a connection with concurrent requests, choice of servers, result codes.

It is independent of MSMQ: L{wire<msmq.directory.ldap.transport.wire>} and
L{protocol<msmq.directory.ldap.transport.protocol>} exchange messages, and
L{connection<msmq.directory.ldap.transport.connection>} connects to one of the servers on demand.
"""
