"""Memory that the bodies of requests take together."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.control.authentication.token_check import TokenSite
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.request_memory import RequestMemory
from tests.control.callers.test_token_check import OTHER, TOKEN, authentication, token_file
from tests.control.support import Caller, ControlTestCase


@attrs.define
class Source:
    """A connection that can be paused."""

    is_paused: bool = False

    def pauseProducing(self) -> None:
        self.is_paused = True

    def resumeProducing(self) -> None:
        self.is_paused = False


class RequestMemoryTests(SynchronousTestCase):
    """A limit of 100 bytes, and the requests A, B and C, in this order."""

    def setUp(self) -> None:
        self.memory = RequestMemory(100)
        self.sources = {name: Source() for name in "ABC"}

    def take(self, name: str, size: int) -> None:
        self.memory.take(name, self.sources[name], size)

    def paused(self) -> str:
        return "".join(name for name, source in self.sources.items() if source.is_paused)

    def test_within_the_limit(self) -> None:
        """Up to the limit every connection is read."""
        self.take("A", 50)
        self.take("B", 50)
        self.assertEqual((self.paused(), self.memory.used), ("", 100))

    def test_oldest_is_always_read(self) -> None:
        """Beyond the limit only the oldest request is read, whatever its size."""
        self.take("A", 50)
        self.take("B", 40)
        self.take("C", 20)
        self.take("A", 500)
        self.take("B", 1)
        self.assertEqual(self.paused(), "BC")

    def test_released(self) -> None:
        """When the oldest is answered, the others are read again."""
        self.take("A", 90)
        self.take("B", 20)
        self.take("C", 20)
        self.memory.release("A")
        self.assertEqual((self.paused(), self.memory.used), ("", 40))

    def test_still_beyond_the_limit(self) -> None:
        """When the others take too much, the one that is the oldest now is read alone."""
        self.take("A", 90)
        self.take("B", 80)
        self.take("C", 80)
        self.memory.release("A")
        self.assertEqual(self.paused(), "C")
        self.memory.release("B")
        self.assertEqual((self.paused(), self.memory.used), ("", 80))

    def test_lost_while_paused(self) -> None:
        """A paused connection that is lost is not resumed; releasing twice changes nothing."""
        self.take("A", 90)
        self.take("B", 20)
        self.memory.release("B")
        self.memory.release("B")
        self.assertEqual((self.paused(), self.memory.used), ("B", 90))
        self.memory.release("A")
        self.assertEqual((self.paused(), self.memory.used), ("B", 0))


class BodyTests(ControlTestCase):
    """Clients that send bodies of 800 bytes, and a limit of 1,000 for all together."""

    limits = ControlLimits(request_memory=1000, reader_memory=1000, request_body=2000)

    def begin(
        self, size: int = 600, whole: int = 800, caller: Caller | None = None, header: str = ""
    ) -> Caller:
        """A client that has sent a part of its body."""
        caller = caller or self.caller()
        target = "/v1/messages?destination=.%5Cprivate%24%5Corders"
        head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\n{header}Content-Length: {whole}\r\n\r\n"
        caller.feed(head.encode("ascii") + b"x" * size)
        return caller

    def is_paused(self, caller: Caller) -> bool:
        return caller.transport.producerState == "paused"

    def test_waits_for_memory(self) -> None:
        """A second large body is not read while the first one is incomplete; both are sent in the end."""
        first, second = self.begin(), self.begin()
        self.assertEqual((self.is_paused(first), self.is_paused(second)), (False, True))
        first.feed(b"x" * 200)
        self.assertEqual(first.answer.status, 201)
        self.assertFalse(self.is_paused(second))
        second.feed(b"x" * 200)
        self.assertEqual(second.answer.status, 201)
        self.assertEqual(len(self.take()), 2)
        self.assertEqual(self.site.request_memory.used, 0)

    def test_callers_that_only_read(self) -> None:
        """Bodies of callers that may not send hold up no body of one that may."""
        file = token_file(self, f"prometheus monitor {TOKEN}", f"night operator {OTHER}")
        guarded = TokenSite(self.site, authentication(file, self.clock.reactor), self.clock.reactor)

        def begin(token: str) -> Caller:
            header = f"Authorization: Bearer {token}\r\n"
            return self.begin(caller=Caller(guarded, self.clock), header=header)

        monitors = [begin(TOKEN) for _ in range(2)]
        self.assertEqual([self.is_paused(each) for each in monitors], [False, True])
        for caller in (self.begin(), begin(OTHER)):
            self.assertFalse(self.is_paused(caller))
            caller.feed(b"x" * 200)
            self.assertEqual(caller.answer.status, 201)
        monitors[0].feed(b"x" * 200)
        self.assertEqual(monitors[0].answer.status, 403)
        self.assertFalse(self.is_paused(monitors[1]))

    def test_lost_connection(self) -> None:
        """A client that goes away in the middle of its body releases the memory."""
        first, second = self.begin(), self.begin()
        first.hang_up()
        self.assertFalse(self.is_paused(second))
        self.assertEqual(self.site.request_memory.used, 600)
        second.hang_up()
        self.assertEqual(self.site.request_memory.used, 0)

    def test_refused_body(self) -> None:
        """A body over its own limit takes no memory."""
        caller = self.begin(size=3000, whole=9000)
        self.assertEqual(self.site.request_memory.used, 0)
        caller.feed(b"x" * 6000)
        self.assertEqual(caller.answer.status, 413)
