"""Queries for programs that read the file of a store, with or without a running server.

These are no views of the database, since SQLite up to 3.40 does not check the whole of a file that has any.
A LookupIdentifier has 2^63 subtracted, so that it fits a signed integer; the identifier of a queue is the 16
bytes of its GUID in the order in which it is printed; text that is not Unicode text is a BLOB, in UTF-8 with
surrogates.
"""

from __future__ import annotations

from typing import Final

STORED_MESSAGES: Final = """
SELECT queue.identifier AS queue, message.lookup_id, message.size, message.arrived, message.due,
       message.aborts, message.moves, message.identity, packet.content AS packet
FROM message
JOIN queue ON queue.id = message.queue
JOIN packet ON packet.id = message.packet
"""
"""Every message that survives a restart."""

STORED_LOG: Final = """
SELECT log.sequence, queue.identifier AS queue, log.lookup_id, log.arrived, log.size, log.packet
FROM log
JOIN queue ON queue.id = log.queue
JOIN log_extent ON log_extent.queue = log.queue AND log.sequence >= log_extent.first
"""
"""The message logs, without what was trimmed and is not deleted yet."""

STORED_EVENTS: Final = """
SELECT sequence, time, identity, event, reason, message_class, queue
FROM event
WHERE sequence >= (SELECT first FROM sequence WHERE name = 'event')
"""
"""The event log, in the same way."""
