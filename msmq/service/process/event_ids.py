"""Identifiers of the log's lines and of the words of the event log, which stay when texts change.

A new line of the log is a line here, with the next number of its room; a text that changes keeps its number,
and a number is never given to another event.  docs/events.md is made from this table (C{make events}).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EVENT_IDS: Final[Mapping[str, int]] = {
    "control|{line}": 1001,
    ("remote control: {peer} sent no valid token; {count} such requests since the last such line"): 1002,
    "token file {path} has changed and was read again": 1003,
    "{error}; all callers are refused until it is readable": 1004,
    "A request to the control API failed": 1005,
    "a connection to the control socket is refused: each of {limit} has a pending request{others}": 1006,
    "Messages that a reader had confirmed could not be removed": 1007,
    "Messages that a reader had confirmed could not be removed and are in their queue again": 1008,
    "A transaction could not be aborted": 1009,
    "The messages of a stream could not be sent": 1010,
    "A stream of messages could not be committed": 1011,
    "{caller}: a request is refused: {reason}{others}": 1012,
    (
        "remote control: a connection with {token} from {peer} is refused: {limit} are in use, none"
        " of them by a token with more{others}"
    ): 1013,
    (
        "remote control: a request of {token} from {peer} is ended for a connection of {other}:"
        " {limit} are in use, and {token} has the most{others}"
    ): 1014,
    (
        "{endpoint}: the TLS certificate expired on {date}, and clients refuse it; write a new one"
        " to its file and reload the configuration"
    ): 1015,
    (
        "{endpoint}: the TLS certificate expires in {left}, on {date}; write a new one to its file"
        " and reload the configuration"
    ): 1016,
    (
        "{token} from {peer} is refused: it expired on {date}; give its line of the token file another"
        " token and date, or remove it{others}"
    ): 1017,
    (
        "{token} expired on {date}, and is refused; give its caller another one, or remove its line"
        " of the token file"
    ): 1018,
    "{token} expires in {left}, on {date}; give its caller another one": 1019,
    "{path} was reloaded": 1201,
    (
        "{path} does not have the public keys of {name}, so other queue managers cannot send it "
        'encrypted messages; its [[queue_manager]] needs the line encryption_keys = "..." with '
        "the content of keys/encryption-keys.txt"
    ): 1202,
    "{copy} cannot be written, so a start without {path} uses an older copy: {error}": 1203,
    "the directory could not be reloaded": 1204,
    "directory entry left out or used in part: {fault}": 1205,
    "{count} more directory entries have faults": 1206,
    "the certificate of {host} could not be verified": 1207,
    "directory servers could not be discovered": 1208,
    "the directory {directory} is reached at {server}": 1209,
    "the directory {directory} cannot be reached: {detail}": 1210,
    "no name server is known: {error}": 1211,
    "no SRV record {name}: {error}": 1212,
    "an observer of the directory {directory} failed": 1213,
    "queue {path} was deleted with {count} messages in it": 2001,
    "the deletion of a queue was not completed": 2002,
    "no negative acknowledgement for a message of a deleted queue: {error}": 2003,
    "{count} message(s) purged from {queue}": 2004,
    "{count} message(s) removed from {queue} unread, {reason}: {messages}{omitted}": 2005,
    "no negative acknowledgement for a message to {queue}: {error}": 2006,
    "acknowledgement {name} of message {message} not sent: {why}{others}": 2007,
    (
        "{count} poison message(s) moved to {queue};poison after {aborts} aborted "
        "transactions, as [queues] poison_after says; the first is {message}"
    ): 2008,
    "poison messages stay in {queue}: {error}": 2009,
    "a step whose caller has stopped waiting failed: {error}": 2010,
    "the store has space again": 2011,
    "the store is full, no messages are accepted: {error}": 2012,
    "the owner of the store was not recorded: {error}": 2013,
    "the directory was not closed": 2014,
    "the router could not be opened": 2015,
    "the list of a queue in the directory was not read: {error}": 2016,
    "manager|{reason}": 2017,
    "directory {source} is reachable again": 2018,
    "In the enterprise: {problem}": 2019,
    "and {count} problems more": 2020,
    "the enterprise could not be read again": 2021,
    "The enterprise could not be read.": 2022,
    "the router has stopped": 2023,
    "The enterprise is routed as before: {detail}": 2024,
    "a change in the directory is in effect for {object}: {change}": 2025,
    "the directory no longer differs from the {subject} of {object}": 2026,
    "the directory differs from {object}: {difference}": 2027,
    (
        "routing_server is true in the configuration and not in the directory, so other queue "
        "managers do not route messages through this one; an administrator sets it with msmq "
        "enterprise role {name} --routing"
    ): 2028,
    (
        "the roles of this queue manager were not published in its sites; the next start tries "
        "again, and an administrator can with msmq enterprise role {name} --routing: {detail}"
    ): 2029,
    (
        "the public keys of this queue manager were not published; peers cannot encrypt for "
        "it; the next start tries again: {detail}"
    ): 2030,
    (
        "the directory refuses to write the object of this queue manager, so its keys and site "
        "are used as the directory has them; peers cannot encrypt for it unless its keys are "
        "there: {reason}"
    ): 2073,
    "queues are paused for readers since before the start: {queues}": 2074,
    (
        "this may be a clone: {reason}; nothing is sent to other queue managers until msmq identity "
        "keep (this is the original) or msmq identity renew"
    ): 2075,
    "the periodic updates from the directory have stopped": 2031,
    "the directory is not used: {error}; it is checked again": 2032,
    "the stored value {name} is not used: {error}": 2033,
    "The check whether the directory is back failed.": 2034,
    "the directory {name} failed{others}": 2035,
    "the owner of a public queue was not found: {error}{others}": 2036,
    "a public queue could not be looked up": 2037,
    "MessageIDs could not be reserved: {error}": 2038,
    "acknowledgement of message {message} not sent: {error}{others}": 2039,
    "acknowledgement from {address} {why}{others}": 2040,
    (
        "nothing is sent to {name}: the limit on outgoing queues is reached, {busy} of them with pending "
        "messages on behalf of {host}{others}"
    ): 2041,
    "message {message} for {destination} from {address} not accepted: {reason}{others}": 2042,
    "messages from {address} were not accepted": 2043,
    "messages from {address} were not stored{others}": 2044,
    "delivery records are left out: {damage}": 2045,
    "outgoing messages could not be read: {error}": 2046,
    "outgoing messages could not be read": 2047,
    "no FinalAck for message {message}: {why}{others}": 2048,
    "{what} is not sent: {error}{others}": 2049,
    (
        "the queue manager at {address} has our own identifier {identifier}: one of the two "
        "machines was cloned{others}"
    ): 2050,
    (
        "queue manager {identifier}, known at {known}, is also at {address}: a cloned machine, or a "
        "peer that claims its identifier{others}"
    ): 2051,
    "queue manager {identifier} at {address}: {offset}{others}": 2052,
    ("acknowledgement from {address} {why}: the journal copy of its message still waits{others}"): 2053,
    "messages that wait were not settled": 2054,
    "the destinations of waiting messages were not read": 2080,
    "message that waits for its acknowledgement not read: {error}": 2055,
    "acknowledged messages could not be removed": 2056,
    "{what} not stored: {error}": 2057,
    "express messages stay in memory: {error}": 2058,
    "{what} not stored, retrying: {error}": 2059,
    "not stored: {what}": 2060,
    "outgoing queues are still paused after the restart: {what}": 2061,
    "outgoing queues are still redirected after the restart: {names}": 2062,
    "the router failed": 2063,
    "no route: {error}": 2064,
    "a new route could not be applied": 2065,
    "acknowledgements could not be read": 2066,
    "an acknowledgement could not be read: {error}": 2067,
    "message {message} could not be checked{others}": 2068,
    "the gate failed, and the peer is not trusted{others}": 2076,
    "the drain of {queue} to {destination} waits: {reason}": 2077,
    "the drain of {queue} has failed": 2078,
    "the drain of a queue to {destination} has ended: {error}": 2079,
    (
        "the drain of {queue} does not go on, since its record in the store is damaged: {reason};"
        " begin it again"
    ): 2081,
    "results of messages were not sent": 2082,
    "the results of {count} message(s) were not sent: the store had failed until the stop": 2083,
    (
        "{count} stored pause(s) of outgoing queues are left out, since their names are invalid, so they"
        " send: {names}"
    ): 2084,
    "{count} stored redirect(s) of outgoing queues are left out, since they are invalid: {names}": 2085,
    "messages that a receiver refuses hold up others: {reason}": 2087,
    "a commit of the store failed: {error}{others}": 2088,
    "the archive process has ended, and is started again: {reason}": 5971,
    "the archive is not written: {reason}": 5972,
    "the archive is written again": 5973,
    "the archive is incomplete: {line}": 5974,
    "the archive is late: it is complete up to {seconds} seconds ago": 5975,
    "the shadow of {queue} has failed, and tries again": 5951,
    "the shadow of {queue} waits: {reason}": 5952,
    (
        "the shadow of {queue} begins again after message {last} of the message log, which is older than"
        " message {copied}, which was copied: the store was replaced by an earlier one"
    ): 5953,
    (
        "the shadow of {queue} has missed messages: those from number {first} to {last} of the message"
        " log, at most {most}, were trimmed before they were copied"
    ): 5954,
    "the access control of {queue} was changed from {before} to {after}": 2069,
    "the list of {queue} was not written again: {error}": 2070,
    (
        "no acknowledgement of message {message} is put into its administration queue here: {reason}{others}"
    ): 2071,
    "report of message {message} to {queue} discarded: {error}{others}": 2072,
    "arrivals were not stored": 2091,
    "unexpected error: {what} failed": 2092,
    "an attempt to reach a next hop failed": 3001,
    "cannot connect to {address}: all descriptors for dialled sessions are in use{others}": 3002,
    "cannot connect to {address}: {error}{others}": 3003,
    "no address for a next hop: {error}{others}": 3004,
    "a socket could not be closed: {error}": 3005,
    "discovery stopped: its sockets cannot be opened again: {error}": 3006,
    "no directory server answered on any network": 3007,
    "ignored a datagram from {address}: {why}{omitted}": 3008,
    "cannot broadcast on the network of {address}: {error}": 3009,
    "cannot answer {address}: {error}{omitted}": 3010,
    "answered a ping from {host}:{port}, refused: {refused}{omitted}": 3011,
    "ignored a datagram from {host}:{port}: {why}{omitted}": 3012,
    "cannot answer {host}:{port}: {error}{omitted}": 3013,
    "ignored a datagram from {host}, which answers no pending ping{omitted}": 3014,
    "a hook of the session with {address} failed": 3015,
    "session with {address} closed: {reason}{detail}{others}": 3016,
    "a connection with {host} is refused: {reason}{detail}{others}": 3017,
    (
        "the session with {host} is closed for another: {shares} descriptors for {direction} "
        "sessions are in use, of {limit} of the process{others}"
    ): 3018,
    "a session policy failed, and the peer is refused{others}": 3019,
    (
        "a session policy returned {kind} instead of a text or a MessageRefusal, and the peer is"
        " refused{others}"
    ): 3020,
    "{path} could be read by others; it has mode 0600 now": 3601,
    "access control failed, and access is denied{others}": 3602,
    "service|{line}": 4001,
    (
        "the process may open {limit} files and connections only; LimitNOFILE of systemd, or "
        "ulimit -n, sets the limit"
    ): 4002,
    "the configuration is not reloaded, and nothing has changed: {text}": 4003,
    "a step of the start could not be undone": 4004,
    "the service manager is not notified: {error}": 4005,
    (
        "reactor busy for {milliseconds} ms: nothing was read or written meanwhile, longest so far"
        " {longest} ms{others}"
    ): 4008,
    "the server cannot start": 4006,
    "SIGHUP is ignored: {error}": 4007,
    "the configuration could not be reloaded": 4009,
    "storage|{error}": 5001,
    "{where}; what is left is in {target}": 5002,
    "a damaged packet stays in the log: {problem}": 5003,
    "the log cannot be verified: {error}": 5004,
    "{problem}": 5005,
    "an accepted loss has no event: {error}": 5006,
    "{directory}: a write that was never confirmed was cut off before group {sequence}": 5007,
    "{text}: accepted": 5008,
    "{problem}; it is in quarantine": 5009,
    "{place}: the database crashed, and its express messages are lost": 5010,
    "{place}: {name} is off: {risk}": 5011,
    "{path}: cannot write: {error}": 5012,
    "{said}; what is left is in {target}": 5013,
    "{place}: {holder} has shown no sign of life for {seconds} s and is disconnected": 5020,
    "{said}; what is left of it stays there: {target}: cannot write: {error}": 5014,
    "{place}: the database is back": 5015,
    "the store cannot be verified: {error}": 5016,
    "{error}; the express messages of a batch that is done are in memory until it works": 5017,
    "the generation of the store cannot be raised: {error}": 5018,
    "what is damaged stays in the store: {error}": 5019,
    "the metrics could not be written": 5801,
    "web: a request from {peer} is refused: {reason}{others}": 5802,
    "web: {name} from {peer} has logged in": 5804,
    "A page of the web console failed": 5803,
    "route {route} of the bridge is connected to {address}": 5901,
    "route {route} of the bridge waits: {reason}": 5902,
    "route {route} of the bridge is blocked: {reason}": 5903,
    "route {route} of the bridge is no longer blocked": 5904,
    "route {route} of the bridge cannot store a dead letter: {reason}": 5905,
    "route {route} of the bridge has failed, and starts again in {delay:g} s": 5906,
    "route {route} of the bridge cannot map a message": 5907,
    "{kind}: message {identifier} of {queue}: {reason}": 5911,
    "bridge_program|{line}": 5921,
    "messages that are in process do not end; they are processed again": 6001,
    "messages of {queue} cannot be read: {error}{others}": 6002,
    "a message that was processed is removed from {queue} later: {error}": 6003,
    "message {message} of {queue} could not be processed, attempt {attempt}: {error}{others}": 6004,
    "{what}: message {message} of {queue}{others}": 6005,
    "a broker cannot process its messages": 6006,
    "the broker does not process {count} queue(s) of its store, which accept messages: {queues}": 6007,
    "a queue was not created for a message: {error}": 6008,
    "a coroutine of the broker for a session failed": 6009,
    (
        "{broker} has no store: messages that it has acknowledged, and what it knows of duplicates and "
        "streams, are lost when the process ends; store=PATH keeps them"
    ): 6010,
    "{broker} cannot start: {error}": 6011,
    "queue {queue} of a broker was deleted; it is looked for every {seconds} s": 6012,
    "{owner} could not stop": 6013,
    "{broker} stops, since another server is active: {error}": 6014,
    "coroutines of the broker for sessions do not end; the broker stops without them": 6015,
    "the capture has ended: {reason}": 6101,
    "the listener of a relay failed": 6102,
    "a recording proxy could not stop": 6103,
    "an observer of the events of a test double failed": 6201,
}
"""The number of each line by its format; a format that stands for whole lines has its room before it."""

WHOLE_LINES: Final[Mapping[str, str]] = {
    "bridge_program|{line}": "start of a bridge: queue managers, addresses",
    "control|{line}": "audit: the caller, and the change or the refusal",
    "manager|{reason}": "the directory is unreachable, acknowledgements wait or are missing; the reason",
    "service|{line}": "start and stop: identity, addresses, store, a mistake that ends the start",
    "storage|{error}": "the store failed or found damage; what and where",
}
"""What the formats are about that stand for whole lines."""

EVENT_WORDS: Final[Mapping[str, str]] = {
    "acknowledged": "an administration acknowledgement for a message that was handed over has arrived",
    "acknowledgements_wait": "acknowledgements wait for a sender that is at another address",
    "administered": "an operator changed something by the control API; the reason names the caller",
    "archive_erased": "rows of the archive were erased; the reason has the columns and the numbers of rows",
    "archive_incomplete": "entries were trimmed before they were archived",
    "clock_skew": "the clock of a peer differs from this one",
    "clone_suspected": "the data directory may be a copy; nothing is sent until an operator decides",
    "cloned": "the identifier of a peer was seen at several addresses",
    "copied": "an operator sent a copy of a message",
    "drained": "a drain sent a message to its destination, with a new identifier",
    "sequence_passed": "a receiver refuses what a restored or resumed server sends: it has later messages",
    "shadow_incomplete": "messages were trimmed from the message log before a shadow copied them",
    "shadow_skipped": "a shadow could not copy a message",
    "damaged": "the store found a damaged message, which is in quarantine",
    "deleted": "a message was removed with its queue",
    "directory_change": "a change in the directory was applied",
    "directory_difference": "a change in the directory was not applied, because it would weaken protection",
    "directory_lost": "the directory became unreachable",
    "directory_reached": "the directory is reachable again",
    "expired": "a message was not delivered, or not received, in time",
    "express_lost": "express messages did not survive a stop",
    "failed": "a transactional message was not received, or the journal copy of a message was not stored",
    "final_acknowledged": "the final acknowledgement of a transactional message has arrived",
    "handed_over": "a message was handed over to another queue manager",
    "identity_renewed": "a clone got an identifier of its own; the reason has the former one",
    "loss_accepted": "an operator accepted the loss of messages",
    "migrated": "the store was migrated",
    "moved": "an operator moved a message to another queue",
    "order_acknowledged": "the order acknowledgement of a transactional message has arrived",
    "poisoned": "a message was moved to the subqueue `poison`, after `[queues] poison_after` aborts",
    "purged": "a message was removed by a purge or by an operator",
    "received": "a transactional message was received at its destination",
    "refused": "an arriving message was not accepted",
    "rejected": "a message was rejected by its reader, or could not stay in its queue",
    "requeued": "a dead letter was sent again",
    "restored": "the store was restored from a backup",
    "store_full": "the store became full: no messages are accepted, and no journal copies are made",
    "store_has_space": "a full store has space again; the reason has the number of copies that were not made",
    "unacknowledged": "no acknowledgement arrived for a message whose journal copy waited for it",
    "unencrypted": "a message could not be encrypted for its receiver",
}
"""What the words of the event log mean."""


def event_id(room: str, text: str) -> int | None:
    """The number of a log line; C{None} for one that is not of this package.

    @param room: the part of msmq that writes it.
    @param text: its format.
    """
    found = EVENT_IDS.get(text)
    return EVENT_IDS.get(f"{room}|{text}") if found is None else found
