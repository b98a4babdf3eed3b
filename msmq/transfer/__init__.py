"""Exactly-once, in-order transfer of transactional messages. [MS-MQQB] 3.1.1.5 to 3.1.1.7.

This state is independent of sessions, and survives a restart.
On the sending side each outgoing queue has a stream that assigns sequence numbers to its messages,
permanently, and resends unacknowledged ones. On the receiving side each pair of a sender and a destination
has one that admits the next message in order, and acknowledges stored messages with OrderAcks. The code here
is independent of sessions, queues and stores: messages are passed in and returned, and state to store is a
name and its bytes.
"""
