"""Hostile input, a kind each: what a peer without any trust can do."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping
from uuid import UUID

from tests.budgets.attacked import AttackedServer
from tests.budgets.namespace import SERVER, hostile_address
from tests.builders import establish, numbered_packet, parameters
from tests.hostile_packets import HOSTILE
from tests.integration.hostile.plain_sockets import PlainPeer
from tests.patience import DEADLINE

ORDERS = f"TCP:{SERVER}\\private$\\orders"
PAYMENTS = f"TCP:{SERVER}\\private$\\payments"


def handshakes(server: AttackedServer) -> list[PlainPeer]:
    """Three hundred sessions from as many hosts, which end at once."""
    for number in range(300):
        server.open(hostile_address(number), client=UUID(int=number + 1)).close()
    return []


def garbage(server: AttackedServer) -> list[PlainPeer]:
    """Three hundred connections with bytes that are no packet, a third of them after a handshake."""
    for number in range(300):
        peer = server.connect(hostile_address(number)) if number % 3 else server.open(hostile_address(number))
        peer.send(bytes(range(256)) * 8)
        peer.read_to_end()
        peer.close()
    return []


def half_packets(server: AttackedServer) -> list[PlainPeer]:
    """Sixty-four sessions with a sixteenth of the largest packet each: sixteen megabytes."""
    packet = numbered_packet(bytes(4_000_000), destination=ORDERS)[: 1 << 18]
    peers = []
    for number in range(64):
        peer = server.open(hostile_address(number), client=UUID(int=number + 1))
        peer.send(packet)
        peers.append(peer)
    return peers


def datagrams(server: AttackedServer) -> list[PlainPeer]:
    """Twelve thousand datagrams to ping and discovery: empty, garbage, and pings."""
    ping = struct.pack("<BBHII", 0, 0, 0, 0, 0) + bytes(16)
    for number in range(40):
        sender = server.network.datagrams(hostile_address(number))
        for port in (3527, 1801):
            for data in (b"", bytes(64), ping):
                for _ in range(50):
                    sender.sendto(data, (SERVER, port))
        sender.close()
    return []


def idle_sessions(server: AttackedServer) -> list[PlainPeer]:
    """Two hundred sessions that say nothing."""
    return [server.open(hostile_address(number), client=UUID(int=number + 1)) for number in range(200)]


def idle_connections(server: AttackedServer) -> list[PlainPeer]:
    """Two hundred connections that do not even begin a handshake."""
    return [server.connect(hostile_address(number)) for number in range(200)]


def slow_readers(server: AttackedServer) -> list[PlainPeer]:
    """Twenty sessions that send two hundred messages each and read no acknowledgement."""
    peers = []
    for number in range(20):
        source = UUID(int=number + 1)
        peer = server.open(hostile_address(number), client=source, window_size=1)
        peer.send(*(numbered_packet(destination=ORDERS, source=source) for _ in range(200)))
        peers.append(peer)
    return peers


def unread_answers(server: AttackedServer) -> list[PlainPeer]:
    """Fifty clients of the control socket that request fifty times and read nothing."""
    peers: list[PlainPeer] = []
    request = b"GET /v1/events?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for _ in range(50):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(DEADLINE)
        client.connect(str(server.data / "control.sock"))
        client.sendall(request * 50)
        peers.append(_Unread(client))
    return peers


class _Unread(PlainPeer):
    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection


def _transactional(stream: int, number: int, source: UUID) -> bytes:
    """A transactional message: its TransactionHeader is between its name and its properties."""
    packet = numbered_packet(
        destination=PAYMENTS, recoverable=True, priority=0, source=source, user_flags=0x00100000
    )
    name = 2 + 2 * (len(PAYMENTS) + 1)
    end = 16 + 48 + name + -name % 4
    header = struct.pack("<IIIII", 0, stream, 1_700_000_000, number, number - 1)
    size = struct.pack("<I", len(packet) + len(header))
    return packet[:8] + size + packet[12:end] + header + packet[end:]


def streams(server: AttackedServer) -> list[PlainPeer]:
    """A thousand transactional messages, each of a stream of its own."""
    source = UUID(int=79)
    peer = server.open(hostile_address(2), client=source)
    peer.send(*(_transactional(number, 1, source) for number in range(1, 1001)))
    return [peer]


def sequences(server: AttackedServer) -> list[PlainPeer]:
    """A thousand transactional messages of one stream, each after one that never comes."""
    source = UUID(int=80)
    peer = server.open(hostile_address(3), client=source)
    peer.send(*(_transactional(7, 2 * number, source) for number in range(1, 1001)))
    return [peer]


def names(server: AttackedServer) -> list[PlainPeer]:
    """A thousand messages for queues that do not exist, each with another name; ten names are very long."""
    source = UUID(int=77)
    peer = server.open(hostile_address(0), client=source)
    for number in range(1000):
        name = f"TCP:{SERVER}\\private$\\{number:04}" + "x" * (100 if number > 9 else 20_000)
        peer.send(numbered_packet(destination=name, source=source))
    return [peer]


def identifiers(server: AttackedServer) -> list[PlainPeer]:
    """A thousand messages, each of which claims another source: the first ends the session."""
    peer = server.open(hostile_address(1), client=UUID(int=78))
    for number in range(1000):
        peer.send(numbered_packet(destination=ORDERS, source=UUID(int=number + 1000), recoverable=True))
    return [peer]


def deep_bodies(server: AttackedServer) -> list[PlainPeer]:
    """Every hostile packet of 64 KiB that the parsers are tested with."""
    for number, make in enumerate(HOSTILE.values()):
        peer = server.open(hostile_address(number), client=UUID(int=number + 1))
        peer.send(make(1 << 16))
        peer.close()
    return []


def unfinished_handshakes(server: AttackedServer) -> list[PlainPeer]:
    """Three hundred connections that stop in the middle of the handshake."""
    peers = []
    for number in range(300):
        peer = server.connect(hostile_address(number))
        peer.send(establish(UUID(int=number + 1))[:300] if number % 2 else parameters())
        peers.append(peer)
    return peers


ATTACKS: Mapping[str, Callable[[AttackedServer], list[PlainPeer]]] = {
    attack.__name__: attack
    for attack in (
        handshakes,
        unfinished_handshakes,
        garbage,
        half_packets,
        datagrams,
        idle_sessions,
        idle_connections,
        slow_readers,
        unread_answers,
        streams,
        sequences,
        names,
        identifiers,
        deep_bodies,
    )
}
