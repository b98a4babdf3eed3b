"""A server whose machine loses its power, at any moment."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from msmq.control.client.client import ControlClient, Delivered, Receipt
from msmq.control.protocol.records import StreamRecord
from msmq.interfaces.storage import StorageError
from msmq.storage.sqlite.database import FileDatabase
from msmq.storage.sqlite.packet_reader import PacketReader
from msmq.testing.contracts.store_history import TurnedReactor
from tests.faults import IS_THOROUGH, tell
from tests.faults.order import CONFIRM, CONFIRMED, answered_identifiers, mark
from tests.faults.power import TRACED, Disk
from tests.faults.scenario import ORDERS
from tests.faults.server import ServerTestCase
from tests.faults.small_log import SMALL_LOG, succeeded
from tests.faults.tracing import FILTERED, Call, read_log, tracer, why_not
from tests.storage.policies import policy_of

SENDERS = 4
SENDS = 25 if IS_THOROUGH else 5
CUTS = 1000 if IS_THOROUGH else 5
BODY = 20_000 if IS_THOROUGH else 6_000
"""Bytes of each message, which are several pages and sectors."""

LIKELIHOODS = (0, 0.5, 0.95, 1)
"""How much of what is not synchronised comes on the disk: nothing, some, nearly all, all."""

SEED = 20261121

_MARK = re.compile(rb"<mark \d{6}>")


@attrs.define
class Promises:
    """When the server was asked for what, and when it had answered.

    @ivar sent: by mark, when a message was confirmed to its sender.
    @ivar confirming: when its receiver asked to have it removed, and C{removed}, when that was answered.
    """

    sent: dict[str, int] = attrs.field(factory=dict)
    confirming: dict[str, int] = attrs.field(factory=dict)
    removed: dict[str, int] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls, calls: Sequence[Call], identifiers: dict[str, str], receipts: Sequence[Sequence[str]]
    ) -> Promises:
        """Read them from a trace; what was received by each receipt, in their order."""
        promises = cls()
        marks = {identifier: text for text, identifier in identifiers.items()}
        asked = iter(receipts)
        waiting: dict[tuple[str, bytes], Sequence[str]] = {}
        for call in calls:
            if "control.sock" not in call.file:
                continue
            data = call.data
            if call.name == "recvmsg":
                for receipt in CONFIRM.findall(data):
                    waiting[call.file, receipt] = next(asked)
                    promises.confirming |= dict.fromkeys(waiting[call.file, receipt], call.ended)
            elif call.name == "sendto":
                for identifier in answered_identifiers(data):
                    text = marks.get(identifier)
                    if text is not None:
                        promises.sent.setdefault(text, call.began)
                for receipt in CONFIRMED.findall(data):
                    promises.removed |= dict.fromkeys(waiting[call.file, receipt], call.began)
        return promises

    def wrong(self, place: int, found: Sequence[str]) -> list[str]:
        """The violations in the messages that remain if the power fails at this position of the trace."""
        faults = [
            f"{text} was confirmed and is lost"
            for text, when in self.sent.items()
            if when < place <= self.confirming.get(text, place) and text not in found
        ]
        faults += [f"{text} is back" for text in found if self.removed.get(text, place) < place]
        return faults + ["one is there twice"] * (len(set(found)) < len(found))


class PowerCutTestCase(ServerTestCase):
    """A server that is traced, and what is found of its store after power cuts."""

    skip = why_not()

    def live(self, storage: str, environment: Mapping[str, str] | None = None) -> None:
        """Have a server work, and see what it asked of the system."""
        log = self.home / "log"
        around = tracer(log, f"{TRACED},sendto,recvmsg", *FILTERED, "-s", "2000000")
        server = self.server(storage=storage, environment=environment, tracer=around)
        self.assertTrue(server.is_ready(), server.output)
        identifiers, receipts = self.load(server.client)
        server.kill()
        self.calls = list(read_log(log))
        self.promises = Promises.of(self.calls, identifiers, receipts)
        self.assertEqual(self.promises.sent.keys(), identifiers.keys())
        self.assertTrue(self.promises.removed)

    def load(self, client: ControlClient) -> tuple[dict[str, str], list[list[str]]]:
        """All that is tried at length is enough to checkpoint the write-ahead log meanwhile."""
        client.create_queue(ORDERS, {})
        with ThreadPoolExecutor(SENDERS + 1) as pool:
            senders = [pool.submit(_send, client, number) for number in range(SENDERS)]
            receiver = pool.submit(_receive, client, SENDERS * SENDS * 2)
            identifiers = {text: found for sender in senders for text, found in sender.result()}
            return identifiers, receiver.result()

    def found(self, directory: Path) -> list[str]:
        """The marks of the messages that a start finds in a data directory."""
        raise NotImplementedError

    def wrong(self) -> list[str]:
        """The violations after a power cut at any of many positions."""
        chance = random.Random(SEED)
        # Most of the others open files for reading while the server starts.
        eligible = [number for number, call in enumerate(self.calls) if call.name != "openat"]
        places = sorted(chance.choices(eligible, k=CUTS - 1))
        places.append(len(self.calls) - 1)
        disk = Disk(self.home / "data")
        wrong: list[str] = []
        for number, call in enumerate(self.calls):
            while places and places[0] == number:
                del places[0]
                for likelihood in LIKELIHOODS:
                    wrong += self.cut(disk, call, chance, likelihood)
            disk.follow(call)
        return wrong

    def cut(self, disk: Disk, call: Call, chance: random.Random, likelihood: float) -> list[str]:
        """The violations after a power cut during this call."""
        directory = self.home / "cut"
        directory.mkdir()
        try:
            disk.leave(directory, chance, likelihood, call)
            return self.promises.wrong(call.began, self.found(directory))
        except StorageError as error:
            return [str(error)]
        finally:
            shutil.rmtree(directory)

    def try_power_cuts(self, storage: str) -> None:
        """Cut the power at many positions."""
        self.live(storage, self.plugins())
        wrong = self.wrong()
        tell(
            f"{storage}: {CUTS * len(LIKELIHOODS)} power cuts among {len(self.calls)} calls tried,"
            f" {len(wrong)} failed"
        )
        self.assertEqual(len(wrong), 0, "\n".join(wrong[:20]))


def _marks(packets: Iterable[bytes]) -> list[str]:
    return [found.decode() for packet in packets for found in _MARK.findall(packet)]


class PowerCutTests(PowerCutTestCase):
    """Durable means synchronised: nothing that was confirmed needs what the disk had not taken yet."""

    def found(self, directory: Path) -> list[str]:
        """The marks of the messages that a start finds in a data directory."""
        path = directory / "msmq.sqlite"
        database = FileDatabase(path, policy_of(path))
        try:
            snapshot = database.snapshot()
        finally:
            database.close()
        reader = PacketReader(path)
        marks: list[str] = []
        for queue, messages in snapshot.messages.items():
            marks += _marks(reader.read(queue, [message[0] for message in messages]))
        reader.close()
        return marks

    def test_power_cuts(self) -> None:
        """Everything confirmed is there, for any part of the unsynchronised writes on the disk."""
        self.try_power_cuts("sqlite")

    def test_notices_a_store_that_does_not_wait(self) -> None:
        """With C{synchronous = OFF} messages are lost, and the file may be damaged."""
        self.live("careless:OFF", self.plugins())
        wrong = self.wrong()
        self.assertTrue(any("is lost" in fault for fault in wrong), wrong)


class LogPowerCutTests(PowerCutTestCase):
    """The same with the record log."""

    def found(self, directory: Path) -> list[str]:
        """The marks of the messages that a start finds in a data directory."""
        reactor = TurnedReactor()
        store = SMALL_LOG.open_store("", directory, reactor)
        snapshot = succeeded(reactor, store.open())
        marks: list[str] = []
        for queue, messages in snapshot.messages.items():
            packets = succeeded(reactor, store.read(queue, [message[0] for message in messages]))
            marks += _marks(packets)
        succeeded(reactor, store.close())
        return marks

    def test_power_cuts(self) -> None:
        """Everything confirmed is there, for any part of the unsynchronised writes on the disk."""
        self.try_power_cuts("small-log")


def _send(client: ControlClient, sender: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    header = {"destination": ORDERS, "delivery": "recoverable"}
    for number in range(SENDS):
        marks = [mark(sender * 1000 + number * 10 + more) for more in range(number % 5 + 1)]
        bodies = (text.ljust(BODY).encode() for text in marks)
        found += zip(marks, client.send(StreamRecord(header, body) for body in bodies), strict=True)
    return found


def _receive(client: ControlClient, count: int) -> list[list[str]]:
    receipts: list[list[str]] = [[]]
    with client.receive(ORDERS, count=count) as stream:
        for item in stream:
            match item:
                case Delivered(_, body):
                    receipts[-1].append(body.rstrip().decode())
                case Receipt():
                    item.confirm()
                    receipts.append([])
    return receipts[:-1]
