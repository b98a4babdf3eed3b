"""Settings of [MS-MQQB]: the values of its behaviour notes, with their defaults."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class SessionSettings:
    """Times are seconds, sizes are counts; the notes are those of [MS-MQQB] appendix A."""

    window_size: int = 64
    """WindowSize: messages that may be unacknowledged in either direction, 1 to 32767 (notes 36, 50)."""

    session_initialization: float = 60.0
    """Session Initialization Timer: the longest handshake (note 43)."""

    session_cleanup: float = 300.0
    """Session Cleanup Timer: an open session idle for this long closes; 120 on a routing server (note 44)."""

    session_retry: float = 5.0
    """Session Retry Connect Timer: from a failure to the next attempt (note 45)."""

    session_retry_maximum: float = 60.0
    """Each attempt that fails doubles the wait for the next one, up to this; an acknowledgement ends that."""

    ack_wait_timeout: float = 20.0
    """AckWaitTimeout: without an acknowledgement for this long a session closes, 20 to 120 (note 51)."""

    direct_ack_wait_factor: int = 2
    """Multiplies the wait for an acknowledgement on sessions to a direct format name (note 46)."""

    recoverable_ack_minimum: float = 0.5
    """Lower bound of the RecoverableAckSendTimeout that a peer requests (3.1.5.3.2)."""

    recoverable_ack_maximum: float = 120.0
    """Upper bound of the RecoverableAckSendTimeout that a peer requests (3.1.5.3.2)."""

    window_recovery: float = 30.0
    """A window cut to 1, by the peer or for lack of memory, doubles this often ([MS-MQMQ] note 15)."""

    resend_short: float = 30.0
    """ResendTimeoutsShort: the first three waits for an OrderAck, each (notes 24, 30)."""

    resend_medium: float = 300.0
    """ResendTimeoutsMedium: the next three (note 31)."""

    resend_long: float = 1800.0
    """ResendTimeoutsLong: the next three (note 32)."""

    resend_final: float = 21600.0
    """ResendTimeoutsFinal: every wait after those (note 33)."""

    unacknowledged_messages: int = 200_000
    """Limit on transactional messages of one outgoing queue that are sent and not order-acknowledged."""

    awaiting_final_acks: int = 1_000_000
    """Limit on transactional messages kept until their FinalAck; beyond it the oldest are abandoned."""

    awaiting_acknowledgements: int = 1_000_000
    """Messages whose journal copy waits for an acknowledgement; beyond it the oldest wait no longer."""

    acknowledgement_wait: float = 4 * 86400.0
    """Seconds that they wait after their own time limit, or after the transfer if they have none."""

    order_ack_timeout: float = 0.5
    """OrderAckTimeout: from a transactional message to its OrderAck (3.1.3.2)."""

    maximum_order_ack_delay: float = 10.0
    """MaximumOrderAckDelay: maximum delay of an OrderAck while more messages follow (note 52)."""

    order_ack_messages: int = 1000
    """Number of stored messages of a stream after which an OrderAck is sent without waiting for the timer."""

    order_ack_bytes: int = 4 << 20
    """Bytes of their packets after which one is sent as well, since the sender keeps them until then."""

    incoming_streams: int = 100_000
    """Limit on remembered streams of transactional messages, by sender and destination."""

    incoming_stream_idle: float = 30 * 86400.0
    """Seconds without messages after which a stream may be evicted for another."""

    outgoing_queue_idle: float = 3600.0
    """Seconds after which an outgoing queue that is empty and unused is removed."""

    duplicate_entries: int = 10_000
    """RemoveDuplicateSize: size of the duplicate table (note 25): this number of recoverable messages, and at
    least as many express ones.
    """

    duplicate_lifetime: float = 1800.0
    """RemoveDuplicateCleanup: seconds that entries stay in the duplicate table (note 47)."""

    linger: float = 5.0
    """Seconds that a closing connection has to write its last packet before it is aborted."""

    ping_before_session: bool = False
    """Whether an attempt begins with a Ping Request, as only old versions do (notes 3, 7, 56)."""

    ping_response: float = 1.0
    """Ping Response Timer: exactly one second in the document (3.1.2.9)."""

    ping_port: int = 3527
    """UDP port of the Ping Request (2.1.2, notes 9 and 11)."""

    pings_per_second: int = 100
    """Ping Requests answered in a second, over all sources; the rest is dropped."""

    session_port: int = 1801
    """TCP port of a next hop whose address names none ([MS-MQQB] 1.9, 2.1.1)."""

    is_server: bool = False
    """Whether to claim a server-class system in OS and RC (2.2.3.1, 2.2.7, notes 14 and 19)."""

    max_sessions: int = 0xFFFFFFFF
    """MaxInSessions: accepted sessions beyond this are refused in the handshake (notes 12, 70)."""

    max_handshakes: int = 1000
    """Accepted connections that have not finished their handshake; one more displaces the oldest."""

    log_lines: int = 20
    """Lines of the log in a minute about sessions and attempts to connect, at most a quarter of one kind."""

    max_connections_per_host: int = 1000
    """Accepted connections from one host; one more is closed at once. Those over unix sockets are of one."""

    sessions_per_second: int = 200
    """Connections that one address may open in a second, loopback any number; 0 for any number."""

    receive_memory: int = 256 * 1024 * 1024
    """Bytes, over all sessions, of packets that are not whole yet or wait for the store; beyond it only one
    session at a time reads on."""

    trust_identifiers: bool = False
    """Whether the identifier that a queue manager claims is accepted from any address; otherwise messages for
    it, and acknowledgements from it, are bound to its known address."""
