"""Several routes of one bridge, to brokers in memory."""

from __future__ import annotations

from pathlib import Path

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import deferLater

from msmq.bridge.replies import LIFETIME, ReplyAddress
from msmq.bridge.rules import InwardRules, OutwardRules
from msmq.bridge_service import reply_records
from msmq.bridge_service import route as route_module
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.rabbitmq.settings import RabbitSettings
from msmq.bridge_service.reply_records import PREFIX, ReplyFile
from msmq.bridge_service.reply_store import ReplyStore
from msmq.bridge_service.service import TIDY_RETRY, BridgeService
from msmq.bridge_service.settings import DEAD_LETTERS, InwardSettings, OutwardSettings
from msmq.interfaces.bridge_messages import AmqpMessage, AmqpProperties
from tests.bridge_service.memory_broker import MemoryBroker
from tests.bridge_service.test_reply_store import keep
from tests.manager.support import FULL, ManagerTestCase

ROUTES = 10
CLOSE_TIME = 2.0


class StopTests(ManagerTestCase):
    """A bridge that stops."""

    def test_brokers_that_hang(self) -> None:
        """Brokers that do not answer when their connections are closed delay the end once, not each."""
        reactor = self.clock.reactor

        class SlowBroker(MemoryBroker):
            """Closes its connection after some seconds."""

            async def close(self) -> None:
                await deferLater(reactor, CLOSE_TIME)

        self.patch(route_module, "open_broker", lambda settings, reactor: SlowBroker())
        service = BridgeService(
            [
                OutwardSettings(
                    name=f"out-{number}",
                    broker=RabbitSettings(addresses=(BrokerAddress("127.0.0.1", 5672),)),
                    queue=self.orders,
                    dead_letters=DEAD_LETTERS,
                    rules=OutwardRules(route="out"),
                )
                for number in range(ROUTES)
            ],
            lambda _: ManagerQueues(self.service),
            reactor,
            None,
        )
        service.start()
        self.clock.advance(1)
        stopped = Deferred.fromCoroutine(service.stop())
        self.clock.advance(CLOSE_TIME)
        self.successResultOf(stopped)


RABBIT = RabbitSettings(addresses=(BrokerAddress("127.0.0.1", 5672),))
REPLIES = "DIRECT=OS:ALPHA\\private$\\orders"


class PendingReplyTests(ManagerTestCase):
    """Requests from a broker to C{admin}, whose replies C{orders} has."""

    def setUp(self) -> None:
        super().setUp()
        # Threads would need another reactor than the clock.
        self.patch(reply_records, "deferToThread", maybeDeferred)
        self.tags = 0
        self.later = 0.0
        self.start_bridge()

    def start_bridge(self, directory: Path | None = None, route: str = "requests") -> None:
        """Start both routes.

        @param directory: the data directory; a new one by default, as another server has.
        """
        self.directory = Path(self.mktemp()) if directory is None else directory
        self.requester, self.replier = MemoryBroker(), MemoryBroker()
        brokers = [self.requester, self.replier]
        self.patch(route_module, "open_broker", lambda settings, reactor: brokers.pop(0))
        requests = InwardSettings(
            name=route,
            broker=RABBIT,
            queue=self.admin,
            broker_queue="incoming",
            dead_letters="dead",
            rules=InwardRules(route=route, reply_queue=REPLIES),
        )
        replies = OutwardSettings(
            name="replies",
            broker=RABBIT,
            queue=self.orders,
            dead_letters=DEAD_LETTERS,
            rules=OutwardRules(route="replies", answers=True),
            answers=route,
        )
        self.bridge = BridgeService(
            [requests, replies],
            lambda _: ManagerQueues(self.service),
            self.clock.reactor,
            self.directory,
            self.wall,
        )
        self.bridge.start()
        self.addCleanup(lambda: self.run_to_end(self.bridge.stop()))
        self.clock.advance(1)

    def wall(self) -> float:
        """The time for the bridge."""
        return self.clock.now().wall + self.later

    def request(self, *bodies: bytes, reply_to: str = "answers") -> None:
        """Deliver requests together."""
        for body in bodies:
            self.tags += 1
            properties = AmqpProperties(message_id=body.decode(), reply_to=reply_to)
            self.requester.deliver(self.tags, AmqpMessage("", "incoming", properties, body))
        self.clock.advance(2)

    def reply(self, number: int = -1) -> list[bytes]:
        """Reply to a request; returns what is published then."""
        request = self.messages(self.admin)[number].view
        self.put(self.orders, bytes(request.body), correlation_id=request.identifier.to_bytes())
        self.clock.advance(2)
        self.replier.confirm()
        self.clock.advance(2)
        return self.replier.published

    def take_over(self, seconds: float = 0, route: str = "requests") -> None:
        """Let the server be killed, and another one with a data directory of its own take over its store."""
        # Its end stores nothing.
        self.run_to_end(self.bridge.stop())
        self.restart(crash=True)
        self.later += seconds
        self.start_bridge(route=route)

    def pages(self) -> list[str]:
        """The values of the store."""
        return [name for name in self.store.names() if PREFIX in name]

    def test_takeover(self) -> None:
        """The server that takes over publishes the reply to a request of its predecessor, and accepts it for
        as long.
        """
        self.request(b"1", b"2")
        self.take_over()
        self.request(b"3")
        self.take_over(seconds=LIFETIME / 2)
        self.assertEqual([self.reply(number) for number in range(3)][-1], [b"1", b"2", b"3"])
        self.take_over(seconds=LIFETIME / 2)
        self.assertEqual(self.reply(), [])
        self.assertEqual(self.seen(DEAD_LETTERS), [b"3"])

    def test_kill_at_any_commit(self) -> None:
        """A request that was stored has its address, though its broker does not deliver it again."""
        for commits in range(10):
            body = b"%d" % commits
            self.store.is_slow = True
            self.request(body)
            for _ in range(commits):
                self.store.finish(1)
                self.clock.advance(1)
            self.store.lose()
            is_acknowledged = bool(self.requester.acknowledged)
            self.take_over()
            if self.seen(self.admin):
                self.assertEqual(self.reply(), [body])
                self.run_to_end(self.service.purge_queue(self.admin))
            if is_acknowledged:
                break
        else:
            self.fail("no request is acknowledged")
        self.assertEqual(self.replier.published, [body])

    def test_file_of_an_earlier_version(self) -> None:
        """Its addresses are stored with the messages at the start, and it is deleted."""
        file = self.upgrade()
        self.start_bridge(self.directory)
        self.assertFalse(file.exists())
        self.take_over()
        self.assertEqual(self.reply(0), [b"1"])

    def test_file_of_an_earlier_version_and_a_full_store(self) -> None:
        """A full store delays that, until it has space or the next request."""
        for makes_request in (False, True):
            file = self.upgrade()
            self.store.break_down(FULL)
            self.start_bridge(self.directory)
            self.assertTrue(file.exists())
            self.store.recover()
            if makes_request:
                self.request(b"2")
            else:
                self.clock.advance(TIDY_RETRY)
            self.assertFalse(file.exists())
            self.take_over()
            self.assertEqual(self.reply(0), [b"1"])
            if makes_request:
                self.assertEqual(self.reply(), [b"1", b"2"])

    def test_stop_with_a_full_store(self) -> None:
        """A bridge that has stopped does not try again."""
        file = self.upgrade()
        self.store.break_down(FULL)
        self.start_bridge(self.directory)
        self.run_to_end(self.bridge.stop())
        self.store.recover()
        self.clock.advance(TIDY_RETRY)
        self.assertTrue(file.exists())

    def upgrade(self) -> Path:
        """Stop the bridge, with a request that an earlier version has stored in a file; returns that."""
        self.request(b"1")
        identifier = str(self.messages(self.admin)[0].view.identifier)
        self.run_to_end(self.bridge.stop())
        self.run_to_end(self.service.service_values.store([(name[8:], None) for name in self.pages()]))
        file = self.directory / "replies-requests.jsonl"
        former = ReplyStore(ReplyFile(file), self.wall)
        former.load()
        address = ReplyAddress("answers", None, self.wall())
        self.successResultOf(keep(former, succeed([identifier]), address))
        return file

    def test_number_of_values(self) -> None:
        """Requests that the broker delivers again, old ones and those of a former route take no space."""
        self.request(b"first")
        for _ in range(5):
            self.request(b"1", b"2")
        self.assertEqual(len(self.pages()), 3)
        self.later = LIFETIME + 1
        self.request(b"3")
        self.assertEqual(len(self.pages()), 1)
        self.take_over(route="others")
        self.assertEqual(len(self.pages()), 1)
        self.take_over(seconds=LIFETIME + 1, route="others")
        self.assertEqual(self.pages(), [])

    def test_size_of_values(self) -> None:
        """Requests that a publisher repeats, each time with another one, do not fill the store."""
        self.patch(reply_records, "REWRITTEN", 10_000)
        bodies = [b"%d" % number for number in range(20)]
        for number in range(40):
            self.request(*bodies, b"other %d" % number, reply_to="a" * 200)
        size = sum(map(len, self.service.service_values.read(PREFIX).values()))
        self.assertLess(size, 2 * 60 * 300 + 21 * 300)
        self.take_over()
        self.assertEqual(len(self.reply(0)), 1)
        self.assertEqual([len(self.reply(number)) for number in (19, 20, 59)], [2, 3, 4])

    def test_published_twice(self) -> None:
        """A request that was published twice, and is sent once, keeps its address when others follow."""
        self.request(b"1", b"1")
        self.request(b"2")
        self.take_over()
        self.assertEqual((self.seen(self.admin), self.reply(0)), ([b"1", b"2"], [b"1"]))

    def test_store_without_space(self) -> None:
        """A request is not acknowledged before its address is stored, and arrives once."""
        self.store.error = FULL
        self.store.is_hit = lambda changes: any(PREFIX in getattr(each, "name", "") for each in changes)
        self.request(b"1", b"2")
        self.assertEqual(self.requester.acknowledged, [])
        self.store.recover()
        self.clock.advance(60)
        self.assertEqual(self.requester.acknowledged, [1, 2])
        self.assertEqual(self.seen(self.admin), [b"1", b"2"])
        self.assertEqual(self.reply(), [b"2"])
