"""The command against a real queue manager, over a real unix socket."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import attrs
from twisted.internet import reactor as installed_reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from msmq.manager.applications.targets import own_queue
from msmq.queues.arriving.message import Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.structures.status import MQError
from tests.patience import DEADLINE
from tests.servers.prepared import spawn as spawn_prepared

reactor = cast(Any, installed_reactor)

PROJECT = Path(__file__).resolve().parent.parent.parent
ORDERS = ".\\private$\\orders"


@attrs.frozen
class Ended:
    """Result of a command: exit status and output."""

    status: int | None
    output: bytes
    errors: str

    @property
    def objects(self) -> list[Any]:
        """The output as lines of JSON."""
        return [json.loads(line) for line in self.output.splitlines()]


class Command(ProcessProtocol):
    """The command as a process."""

    def __init__(self) -> None:
        self.output = b""
        self.errors = b""
        self.ended: Deferred[Ended] = Deferred()

    def kill(self) -> None:
        """End it as no program can prevent."""
        cast(Any, self.transport).signalProcess("KILL")

    def interrupt(self) -> None:
        """End it as Ctrl-C does."""
        cast(Any, self.transport).signalProcess("INT")

    def outReceived(self, data: bytes) -> None:
        """It printed something."""
        self.output += data

    def errReceived(self, data: bytes) -> None:
        """It complained."""
        self.errors += data

    def processEnded(self, reason: Failure) -> None:
        """Record the end of the process."""
        assert isinstance(reason.value, ProcessDone | ProcessTerminated)
        self.ended.callback(Ended(reason.value.exitCode, self.output, self.errors.decode("utf-8")))


def spawn(
    arguments: Sequence[str], environment: Mapping[str, str], directory: Path, piped: bytes = b""
) -> Command:
    """Start the command in a directory, with this piped into it."""
    command = Command()
    spawn_prepared(command, ["msmq", *arguments], {"PATH": os.environ["PATH"], **environment}, str(directory))
    cast(Any, command.transport).write(piped)
    cast(Any, command.transport).closeStdin()
    return command


class CommandTestCase(TestCase):
    """A queue manager with one empty queue, C{ORDERS}, and the command."""

    timeout = DEADLINE
    storage = "memory"

    def setUp(self) -> Any:
        return Deferred.fromCoroutine(self.start())

    async def start(self) -> None:
        """Have a whole server that listens on nothing but its control socket."""
        self.directory = Path(tempfile.mkdtemp(prefix="msmq"))
        self.addCleanup(shutil.rmtree, self.directory)
        file = self.directory / "msmq.toml"
        file.write_text('[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n')
        self.data = self.directory / "data"
        overrides = Overrides(data=str(self.data), storage=self.storage, name="ALPHA")
        server = Server(load(file, overrides), reactor)
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        self.service = server.manager
        self.socket = self.data / "control.sock"
        await self.service.create_queue(ORDERS)

    def begin(
        self, *arguments: str, environment: Mapping[str, str] | None = None, piped: bytes = b""
    ) -> Command:
        """Start the command."""
        reported = {"MSMQ_CONTROL": str(self.socket), **(environment or {})}
        return spawn(arguments, reported, self.directory, piped)

    async def msmq(
        self, *arguments: str, environment: Mapping[str, str] | None = None, piped: bytes = b""
    ) -> Ended:
        """Run the command to its end."""
        return await self.begin(*arguments, environment=environment, piped=piped).ended

    async def put(self, *bodies: bytes, **properties: Any) -> None:
        """Have messages in the queue."""
        await self.service.send(ORDERS, [Message(body=body, **properties) for body in bodies])

    async def bodies(self) -> list[bytes]:
        """The bodies of all messages that can be received now."""
        try:
            reservation = await self.service.reserve(ORDERS, count=10000, timeout=0, peek=True)
        except MQError:
            return []
        return [bytes(message.view.body) for message in reservation.messages]

    async def settle(self, *bodies: bytes) -> None:
        """Wait until exactly these can be received, as after the end of a process that held them."""
        while await self.bodies() != list(bodies):
            await deferLater(reactor, 0.01)

    async def until_a_receiver_waits(self) -> None:
        """Wait until a reader waits for a message."""
        while not own_queue(self.service.model, ORDERS).readers:
            await deferLater(reactor, 0.01)


class WatchTests(CommandTestCase):
    """Verbs that look and change, without messages."""

    async def test_status(self) -> None:
        """The status is one object, or a table for people."""
        ended = await self.msmq("status", "--json")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        [status] = ended.objects
        self.assertEqual(UUID(status["identifier"]), self.service.model.identifier)
        self.assertEqual(status["name"], "ALPHA")
        keys = "identifier name dns_name version state addresses queues messages bytes sessions".split()
        self.assertEqual([key for key in keys if key not in status], [])
        table = await self.msmq("status")
        self.assertRegex(table.output.decode(), r"(?m)^name +ALPHA$")

    async def test_server_is_found(self) -> None:
        """By --control, by --data, by $MSMQ_CONTROL or in ./msmq-data; before the verb or after it."""
        nowhere = {"MSMQ_CONTROL": "/nonexistent"}
        for arguments in (
            ("--control", str(self.socket), "--json", "status"),
            ("status", "--control", str(self.socket), "--json"),
            ("--data", str(self.data), "status", "--json"),
            ("queue", "--data", str(self.data), "--json", "list"),
        ):
            ended = await self.msmq(*arguments, environment=nowhere)
            self.assertEqual((ended.status, len(ended.objects)), (0, 1), arguments)
        (self.directory / "msmq-data").symlink_to(self.data)
        ended = await self.msmq("status", "--json", environment={"MSMQ_CONTROL": ""})
        self.assertEqual(ended.status, 0)

    async def test_queues(self) -> None:
        """A queue is created, listed, shown and deleted, each time as an object."""
        path = ".\\private$\\new"
        created = await self.msmq(
            "queue",
            "create",
            path,
            "--json",
            "--journal",
            "--quota",
            "10",
            "--label",
            "L",
            "--privacy",
            "none",
        )
        self.assertEqual((created.status, created.errors), (0, ""))
        shown = await self.msmq("queue", "show", path, "--json")
        [queue] = shown.objects
        self.assertEqual(queue.pop("log_extent")["entries"], 0)
        self.assertEqual([queue], created.objects)
        self.assertEqual((queue["journal"], queue["quota"], queue["label"]), (True, 10, "L"))
        listed = await self.msmq("queue", "list", "--json")
        self.assertEqual([queue["path"] for queue in listed.objects], [ORDERS, path])
        deleted = await self.msmq("queue", "delete", path, "--json")
        self.assertEqual((deleted.status, len(deleted.objects)), (0, 1))
        self.assertEqual(len(self.service.inspection.queues()), 1)

    async def test_tables(self) -> None:
        """Lists are tables with a heading, also where there is nothing to list."""
        queues = (await self.msmq("queue", "list")).output.decode().splitlines()
        self.assertTrue(queues[0].startswith("path"))
        self.assertTrue(queues[1].startswith(ORDERS))
        self.assertIn(b"next_hops", (await self.msmq("outgoing", "list")).output)
        self.assertIn(b"direction", (await self.msmq("session", "list")).output)
        self.assertEqual((await self.msmq("session", "list", "--json")).output, b"")

    async def test_outgoing(self) -> None:
        """Messages pending for another computer are shown with the keys of the contract."""
        await self.msmq("send", "DIRECT=OS:beta\\private$\\q", "--body", "x")
        [queue] = (await self.msmq("outgoing", "list", "--json")).objects
        keys = {"format_name", "state", "next_hops", "messages", "bytes", "unacknowledged", "history"}
        self.assertEqual(keys - set(queue), set())


class RefusalTests(CommandTestCase):
    """One clear line, the right status, and no traceback."""

    async def check(self, status: int, words: Sequence[str], *arguments: str) -> None:
        ended = await self.msmq(*arguments)
        self.assertEqual(ended.status, status, ended.errors)
        self.assertEqual((ended.output, ended.errors.count("\n")), (b"", 1), ended.errors)
        for word in words:
            self.assertIn(word, ended.errors)

    async def test_refused_by_the_server(self) -> None:
        """The MQ_ERROR and the thing that it is about are named."""
        await self.check(1, ["MQ_ERROR_QUEUE_EXISTS", "orders"], "queue", "create", ORDERS)
        await self.check(1, ["MQ_ERROR_QUEUE_NOT_FOUND", "none"], "queue", "show", ".\\private$\\none")
        await self.check(1, ["MQ_ERROR_QUEUE_NOT_FOUND", "none"], "queue", "delete", ".\\private$\\none")
        await self.check(1, ["MQ_ERROR_NO_DS"], "queue", "create", ".\\public")
        await self.check(1, ["MQ_ERROR_ILLEGAL_FORMATNAME"], "send", "DIRECT=nonsense", "--body", "x")
        await self.check(1, ["MQ_ERROR_QUEUE_NOT_FOUND"], "send", ".\\private$\\none")
        await self.check(1, ["MQ_ERROR_UNSUPPORTED_OPERATION"], "send", ORDERS, "--recoverable")
        await self.check(1, ["MQ_ERROR_ILLEGAL_FORMATNAME"], "receive", "PRIVATE=x", "--json")

    async def test_no_server(self) -> None:
        """A server that is not there is named by its socket."""
        words = ["MQ_ERROR_SERVICE_NOT_AVAILABLE", "/nonexistent/control.sock"]
        for verb in (("status",), ("send", "x"), ("receive", "x"), ("queue", "list")):
            await self.check(1, words, *verb, "--data", "/nonexistent")
        await self.check(1, ["MQ_ERROR_SERVICE_NOT_AVAILABLE"], "status", "--control", "x" * 200)

    async def test_body_over_the_limit(self) -> None:
        """A body beyond what a packet holds is refused, whether alone or with its headers."""
        for size in (0x400000, 0x400001, 0x500000):
            (self.directory / "body").write_bytes(bytes(size))
            words = ["MQ_ERROR_INSUFFICIENT_RESOURCES", "4194304"]
            await self.check(1, words, "send", ORDERS, "--body-file", "body")

    async def test_unreadable_file(self) -> None:
        """A file that cannot be read is wrong usage and is named."""
        await self.check(2, ["missing"], "send", ORDERS, "--body-file", "missing")
        await self.check(2, ["missing"], "send", ORDERS, "--extension-file", "missing")
        await self.check(2, ["missing"], "decode", "missing")

    async def test_server_that_closes_in_the_middle(self) -> None:
        """A server that ends during a request is distinguished from one that refuses."""
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.directory / "dead.sock"))
        listener.listen()
        command = self.begin("status", "--control", "dead.sock")
        while True:
            await deferLater(reactor, 0.01)
            listener.setblocking(False)
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                continue
            connection.close()
            break
        ended = await command.ended
        self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1))
        self.assertIn("MQ_ERROR_SERVICE_NOT_AVAILABLE", ended.errors)


class MessageTests(CommandTestCase):
    """Sending and receiving."""

    async def test_send_and_receive(self) -> None:
        """A message sent by one command is received by another, with all its properties."""
        sent = await self.msmq(
            *("send", ORDERS, "--body", "Grüße", "--label", "L", "--priority", "6", "--app-tag", "7"),
            *("--body-type", "8", "--journal", "--dead-letter", "--ack", "full-receive"),
            *("--admin-queue", "DIRECT=OS:alpha\\private$\\admin"),
            *("--response-queue", "DIRECT=OS:alpha\\private$\\answers"),
            *("--correlation-id", "{12345678-9ABC-DEF0-1234-56789ABCDEF0}\\17"),
        )
        self.assertEqual((sent.status, sent.errors), (0, ""))
        received = await self.msmq("receive", ORDERS, "--json", "--timeout", "0")
        self.assertEqual((received.status, received.errors), (0, ""))
        [message] = received.objects
        self.assertEqual(message["id"], sent.output.decode().strip())
        expected = {
            "label": "L",
            "body": "Grüße",
            "body_size": 7,
            "body_type": 8,
            "priority": 6,
            "class": 0,
            "class_name": "MQMSG_CLASS_NORMAL",
            "delivery": "express",
            "transactional": False,
            "admin_queue": "DIRECT=OS:alpha\\private$\\admin",
            "response_queue": "DIRECT=OS:alpha\\private$\\answers",
            "correlation_id": "{12345678-9ABC-DEF0-1234-56789ABCDEF0}\\17",
            "application_tag": 7,
            "hops": 0,
            "journal": True,
            "dead_letter": True,
            "acknowledge": ["full-receive"],
            "extension_base64": "",
        }
        self.assertEqual({key: message[key] for key in expected}, expected)
        self.assertEqual(await self.bodies(), [])

    async def test_files_of_any_bytes(self) -> None:
        """Body and extension come from files, and bytes that are no text come out as base64."""
        (self.directory / "body").write_bytes(bytes(range(256)))
        (self.directory / "extension").write_bytes(b"\0\1\2")
        await self.msmq("send", ORDERS, "--body-file", "body", "--extension-file", "extension")
        [message] = (await self.msmq("receive", ORDERS, "--json")).objects
        self.assertNotIn("body", message)
        self.assertEqual(message["body_base64"][:8], "AAECAwQF")
        self.assertEqual((message["body_size"], message["extension_base64"]), (256, "AAEC"))

    async def test_count_sends_identical_messages(self) -> None:
        """N alike are sent with an identifier each, rising, and received in that order."""
        sent = await self.msmq("send", ORDERS, "--body", "x", "--count", "1200", "--json")
        identifiers = [line["id"] for line in sent.objects]
        self.assertEqual(len(set(identifiers)), 1200)
        received = await self.msmq("receive", ORDERS, "--count", "2000", "--timeout", "0", "--json")
        self.assertEqual(received.status, 0)
        self.assertEqual([message["id"] for message in received.objects], identifiers)
        self.assertEqual(self.service.inspection.queue(ORDERS).messages, 0)

    async def test_large(self) -> None:
        """A body that just fits comes through whole."""
        body = bytes(range(256)) * 16000
        (self.directory / "body").write_bytes(body)
        await self.msmq("send", ORDERS, "--body-file", "body", "--count", "3")
        self.assertEqual(await self.bodies(), [body] * 3)

    async def test_nothing_in_time(self) -> None:
        """No message in time is status 3 without output; fewer than requested is status 0."""
        ended = await self.msmq("receive", ORDERS, "--timeout", "0.05", "--json")
        self.assertEqual((ended.status, ended.output), (3, b""))
        self.assertIn("MQ_ERROR_IO_TIMEOUT", ended.errors)
        await self.put(b"1")
        ended = await self.msmq("receive", ORDERS, "--timeout", "0.05", "--count", "2")
        self.assertEqual((ended.status, ended.errors), (0, ""))

    async def test_waits(self) -> None:
        """Without a time-out it waits until a message comes."""
        command = self.begin("receive", ORDERS, "--json")
        await self.until_a_receiver_waits()
        await self.put(b"late")
        ended = await command.ended
        self.assertEqual([message["body"] for message in ended.objects], ["late"])

    async def test_peek(self) -> None:
        """A peek shows and leaves everything."""
        await self.put(b"1", b"2", b"3")
        ended = await self.msmq("receive", ORDERS, "--peek", "--count", "2", "--json")
        self.assertEqual([message["body"] for message in ended.objects], ["1", "2"])
        self.assertEqual(await self.bodies(), [b"1", b"2", b"3"])

    async def test_for_people(self) -> None:
        """People get a block for each message, without characters that a terminal obeys."""
        await self.put(b"first\nsecond", label="esc\x1b[31m", priority=7)
        text = (await self.msmq("receive", ORDERS)).output.decode()
        self.assertIn("\npriority      7\n", text)
        self.assertIn("esc\\x1b[31m", text)
        self.assertIn("\n\nfirst\nsecond\n", text)


class GivingBackTests(CommandTestCase):
    """A command that dies takes nothing with it that it has not printed."""

    async def test_killed_while_it_waits(self) -> None:
        """Messages that arrive after a waiting command was killed stay in the queue."""
        command = self.begin("receive", ORDERS)
        await self.until_a_receiver_waits()
        command.kill()
        await command.ended
        await self.put(b"1")
        await self.settle(b"1")

    async def test_killed_while_it_prints(self) -> None:
        """Messages that a killed command had not confirmed are back at their positions."""
        await self.put(*(b"%d" % number * 30000 for number in range(9)))
        os.mkfifo(self.directory / "pipe")
        reader = os.open(self.directory / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        command = Command()
        line = f'exec "$0" -m msmq.cli receive "$1" --count 9 --json >{self.directory / "pipe"}'
        reactor.spawnProcess(
            command,
            "/bin/sh",
            ["/bin/sh", "-c", line, sys.executable, ORDERS],
            env={"PYTHONPATH": str(PROJECT), "MSMQ_CONTROL": str(self.socket)},
            path=str(self.directory),
        )
        while await self.bodies():
            await deferLater(reactor, 0.01)
        command.kill()
        await command.ended
        await self.settle(*(b"%d" % number * 30000 for number in range(9)))

    async def test_closed_output(self) -> None:
        """When the output is not read any more, the command ends as others do, and the message is back."""
        await self.put(b"1")
        command = Command()
        line = f'{{ sleep 0.2; "$0" -m msmq.cli receive "$1"; echo $? >{self.directory / "status"}; }} | true'
        reactor.spawnProcess(
            command,
            "/bin/sh",
            ["/bin/sh", "-c", line, sys.executable, ORDERS],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), "MSMQ_CONTROL": str(self.socket)},
            path=str(self.directory),
        )
        ended = await command.ended
        self.assertEqual((self.directory / "status").read_text(), "1\n")
        self.assertEqual(ended.errors, "")
        await self.settle(b"1")

    async def test_interrupted(self) -> None:
        """Ctrl-C ends it with one line and the status that shells know."""
        command = self.begin("receive", ORDERS)
        await self.until_a_receiver_waits()
        command.interrupt()
        ended = await command.ended
        self.assertEqual((ended.status, ended.errors), (128 + signal.SIGINT, "msmq: interrupted\n"))
