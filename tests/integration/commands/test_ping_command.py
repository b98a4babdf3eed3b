"""C{msmq ping} against a real responder on loopback."""

from __future__ import annotations

import json
from typing import Any, cast

from twisted.internet import reactor as installed_reactor
from twisted.trial.unittest import TestCase

from msmq.net.clock import SystemClock
from msmq.net.ping import PingResponderProtocol
from tests.builders import ALPHA
from tests.integration.test_control_socket import PROJECT, spawn
from tests.patience import DEADLINE

reactor = cast(Any, installed_reactor)


class PingCommandTests(TestCase):
    """Asking whether a session would be taken."""

    timeout = DEADLINE

    async def ping(self, *arguments: str) -> tuple[bytes, bytes, int]:
        ended = await spawn(("ping", *arguments), {}, PROJECT).ended
        return ended.output, ended.errors.encode(), cast(int, ended.status)

    def listen(self, responder: PingResponderProtocol) -> str:
        port = reactor.listenUDP(0, responder, "127.0.0.1")
        self.addCleanup(port.stopListening)
        return f"127.0.0.1:{port.getHost().port}"

    async def test_answer(self) -> None:
        """An answer is one object: the answering host, whether it would refuse, and how long it took."""
        host = self.listen(PingResponderProtocol(ALPHA, clock=SystemClock()))
        output, errors, status = await self.ping(host, "--json")
        self.assertEqual((status, errors), (0, b""))
        [line] = output.splitlines()
        answer = json.loads(line)
        self.assertEqual(set(answer), {"address", "identifier", "refused", "milliseconds"})
        self.assertEqual(answer["address"], "127.0.0.1")
        self.assertEqual(answer["identifier"], str(ALPHA).upper())
        self.assertIs(answer["refused"], False)
        self.assertTrue(0 < answer["milliseconds"] < 1000)

    async def test_refusal_is_an_answer(self) -> None:
        """A queue manager that would refuse a session answers all the same."""

        class Full(PingResponderProtocol):
            def would_refuse(self, address: tuple[str, int]) -> bool:
                return True

        host = self.listen(Full(ALPHA, clock=SystemClock()))
        output, _, status = await self.ping(host)
        self.assertEqual(status, 0)
        heading, line = output.decode().splitlines()
        self.assertEqual(heading.split(), ["address", "identifier", "refused", "milliseconds"])
        self.assertEqual(line.split()[2], "yes")

    async def test_silence(self) -> None:
        """Without an answer in time the status is 3, and the line names the host."""

        class Silent(PingResponderProtocol):
            def datagramReceived(self, datagram: bytes, addr: tuple[str, int]) -> None:
                """Says nothing."""

        host = self.listen(Silent(ALPHA, clock=SystemClock()))
        output, errors, status = await self.ping(host, "--timeout", "0.2", "--json")
        self.assertEqual((status, output), (3, b""))
        self.assertEqual(errors.decode(), f"msmq: MQ_ERROR_IO_TIMEOUT: {host} did not answer within 0.2 s\n")
