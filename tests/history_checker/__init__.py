"""Checker of recorded histories: what applications did with queue managers, and what they may conclude.

It imports nothing of C{msmq}, so that an error of the product cannot be an error of its judge.

A history is a file of JSON lines, in the order of time.
An operation begins with a line C{{"operation": 7, "at": 1.5, "kind": ..., ...}}, and ends with
C{{"operation": 7, "at": 1.6, "result": ...}}; one without an end was interrupted, and its result is unknown.
Every time is in seconds of one clock.

kind C{send}: C{sender}, C{queue}, C{messages} (pairs of label and digest, in order), C{transactional},
C{recoverable}, C{limits} (C{"reach"} and C{"receive"}, if its messages may expire), C{transaction} (the same
for all sends of one transaction, if it has several). Result C{done}: taken; C{refused}: not taken.

kind C{receive}: C{queue}. A line C{{"operation": 8, "at": ..., "shown": [...]}} has the messages that the
application saw. Result C{done}: removed; C{returned}: given back; C{refused}: there was nothing; C{failed}:
interrupted before anything was shown.

A receive that only peeks has C{peeks}, and one of a message by its identifier C{picks}, the label; neither
says anything of the order. Result C{rejected}: the reader rejected what it had.

kind C{move}: C{queue}, C{to} and C{labels}: messages are moved to a subqueue, C{queue;name}, or back; a line
C{shown} has those that were, if it is C{done}. kind C{hold}: C{labels}: readers may overtake these.

kind C{purge}: C{queue}, or C{null} for messages that wait to be sent; kind C{delete}: C{queue}.

kind C{kill}: C{node}.

kind C{restore}: C{node}, C{moment}, C{held}, C{relays}: it is restored from a backup of that time, which has
the messages with these labels in queues where applications receive; C{relays} if it only forwards messages.
kind C{remove refused}: C{node}, C{labels}: an operator removes messages that it sends, since an event of it
reports that their receiver refuses them.

kind C{acknowledgement}: C{label} and C{class}: an acknowledgement was read from an administration queue.
kind C{dead_letter}: C{label}, C{class}: a copy was read from a dead-letter queue.
kind C{fate}: C{label}, C{fate}, C{arrived}, C{node}: the event log of a queue manager reports that the
message was removed; from its queue, or before it reached it.
The fate C{damaged} with the label C{null} is one of a message that could not be read any more.

A send with C{requeues} replaces the dead letter with that name, as C{letter} of one that is left has it.

kind C{journal}: C{queue}, C{labels}, C{complete}: what the journal of a queue has, and whether that is all.
kind C{sent_journal}: C{node}, C{labels}, C{complete}, C{proven}, C{decided}: the same of the messages that a
queue manager has sent and that ask for a copy (C{journal} of a send, labels), whether each copy needs
an acknowledgement (C{proof} of a send: C{reached} or C{received} for each label), and whether it is made once
that has come.
kind C{damaged_copy}: C{node}: a dead letter or a copy in a journal could not be read any more.

kind C{end}: everything was received, from every queue. C{incomplete} (a list of queues) names those for which
that is not so.
"""
