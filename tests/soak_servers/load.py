"""The load of a soak: all that servers of an estate do, again and again."""

from __future__ import annotations

import socket
from typing import Any, Final
from uuid import uuid4

from msmq.control.client.client import Receipt
from msmq.control.protocol.records import StreamRecord
from tests.builders import establish, parameters
from tests.patience import DEADLINE
from tests.soak_servers.estate import Estate, SoakedServer

TOGETHER: Final = 20
"""Messages of each kind in a round."""
ANSWERS: Final = ".\\private$\\answers"


class Load:
    """Rounds of work on an estate.

    @ivar sent: messages that were sent to GAMMA, and L{received} those that came.
    """

    def __init__(self, estate: Estate) -> None:
        self._alpha, self._relay, self._gamma = estate.servers.values()
        self._answers = self._alpha.client.create_queue(ANSWERS, {})["format_name"]
        self._orders = self._gamma.client.create_queue(".\\private$\\orders", {"journal": True})[
            "format_name"
        ]
        payments = self._gamma.client.create_queue(".\\private$\\payments", {"transactional": True})
        self._payments = payments["format_name"]
        self._round = 0
        self.sent = self.received = 0

    def round(self) -> None:
        """One round: what is sent has arrived, and was received, at its end."""
        self._round += 1
        self._exchange()
        self._fail()
        self._unknown_peers()
        self._administer()

    def _send(self, server: SoakedServer, count: int, **properties: Any) -> None:
        keys = {"key": f"{self._round}"} if properties.pop("is_keyed", False) else {}
        records = [
            StreamRecord(
                {**properties, **({} if not keys else {"key": f"{keys['key']}-{number}"})}, b"x" * 500
            )
            for number in range(count)
        ]
        list(server.client.send(records))

    def _exchange(self) -> None:
        """Express, recoverable and transactional messages through the relay, with acknowledgements."""
        answer = {"acknowledge": ["reach", "receive"], "admin_queue": self._answers, "journal": True}
        self._send(self._alpha, TOGETHER, destination=self._orders)
        self._send(self._alpha, TOGETHER, destination=self._orders, delivery="recoverable", **answer)
        self._send(self._alpha, TOGETHER, destination=self._payments, transactional=True, **answer)
        self.sent += 3 * TOGETHER
        self.received += _receive(self._gamma, ".\\private$\\orders", 2 * TOGETHER)
        self.received += _receive(self._gamma, ".\\private$\\payments", TOGETHER)
        _receive(self._alpha, ANSWERS, 4 * TOGETHER)
        self._gamma.client.purge_queue(".\\private$\\orders;journal")
        self._alpha.client.purge_queue(".\\system$;journal")

    def _fail(self) -> None:
        """Messages to names that do not resolve, to hosts that refuse, and ones that expire."""
        for number in range(3):
            name = f"DIRECT=OS:dead-{number}.invalid\\private$\\q"
            self._send(self._alpha, 2, destination=name, time_to_reach_queue=1, dead_letter=True)
        self._send(self._relay, 2, destination="DIRECT=TCP:127.0.0.254\\private$\\q", time_to_reach_queue=1)
        self._alpha.client.purge_queue(".\\system$;deadletter")

    def _unknown_peers(self) -> None:
        """Peers that shake hands and vanish, or say nothing of sense."""
        for number in range(4):
            with socket.create_connection((self._relay.address, 1801), DEADLINE) as peer:
                peer.sendall(establish(uuid4()) + parameters() if number % 2 else bytes(100))
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(65536):
                    continue

    def _administer(self) -> None:
        """Queues that come and go, and questions."""
        path = f".\\private$\\round{self._round}"
        for server in (self._alpha, self._relay, self._gamma):
            server.client.create_queue(path, {"transactional": True})
            self._send(server, 5, destination=path, transactional=True, is_keyed=False)
            server.client.purge_queue(path)
            server.client.delete_queue(path)
            server.client.queues()
            server.client.topology()

    def drain(self) -> None:
        """Take everything out that is left, and wait until nothing is under way."""
        for server in (self._alpha, self._relay, self._gamma):
            if not any(self._empty(server) for _ in range(10_000)):
                raise RuntimeError(f"{server.name} does not become empty: {server.client.status()}")

    def _empty(self, server: SoakedServer) -> bool:
        # Each purge is a line of the log.
        for queue in server.client.queues(system=True):
            if queue["messages"] and queue["path"].startswith(".\\system$;"):
                server.client.purge_queue(queue["path"])
        status = server.client.status()
        return not (status["messages"] or status["awaiting_acknowledgements"])


def _receive(server: SoakedServer, queue: str, count: int) -> int:
    found = 0
    with server.client.receive(queue, count=count, timeout=DEADLINE) as stream:
        for item in stream:
            if isinstance(item, Receipt):
                item.confirm()
            else:
                found += 1
    return found
