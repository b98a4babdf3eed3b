"""[MS-MQQB] 3.1.1.5 to 3.1.1.7: transactional messages arrive exactly once and in order.

Sessions come and go; what is kept here outlives them, and a restart.
On the sending side each outgoing queue has a stream that gives its messages their places in a sequence,
once and for ever, and sends what was not acknowledged again.
On the receiving side each pair of a sender and a destination has one that lets in what is next, and says
with OrderAcks how far the store has followed.
Nothing here knows a session, a queue or a store: messages are given and given back, and what has to be
stored is a name and its bytes.
"""
