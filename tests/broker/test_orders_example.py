"""C{examples/orders_broker}, over a network in memory and as its readers run it."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.message import Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.queue_names import QueueNameKind
from msmq.structures.packet.message_class import MessageClass
from tests.nodes.scripted import ScriptedTestCase, transactional
from tests.nodes.support import Node
from tests.project.example_files import EXAMPLES, example
from tests.servers.own_address import own_address

ORDERS = EXAMPLES / "orders_broker"
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
SAME_AS_ADMIN = QueueNameKind.SAME_AS_ADMIN_QUEUE << 16


class OrdersTests(ScriptedTestCase):
    """ALPHA orders at BETA, the broker."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name == "BETA":
            self.book = Path(str(self.mktemp()))
            kwargs["broker"] = example("orders_broker", ORDERS).Orders(str(self.book))
        node = super().node(name, identifier, store=MemoryMessageStore(durable=True), **kwargs)
        if node.program is not None:
            self.addCleanup(node.program.end)
        return node

    def test_orders(self) -> None:
        """Each is booked and confirmed; what is not an order comes back as a dead letter."""
        answers = self.queue(self.alpha, "answers")
        response = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\answers")
        for body in (b"3", b"many", b"5"):
            order = Message(
                body=body, transactional=True, dead_letter=True, label="boxes", response_queue=response
            )
            self.run_to_end(self.alpha.service.send(TO_BETA, [order]))
        self.clock.advance(30)
        booked = sqlite3.connect(self.book).execute("select boxes from orders").fetchall()
        self.assertEqual(booked, [(3,), (5,)])
        self.assertEqual(self.bodies(self.alpha, answers), [b"booked", b"booked"])
        [dead_letter] = self.take(self.alpha, ".\\system$;deadxact")
        self.assertEqual(
            (bytes(dead_letter.body), dead_letter.message_class),
            (b"many", MessageClass.NACK_RECEIVE_REJECTED),
        )

    def test_orders_that_fail(self) -> None:
        """Neither a number that no table takes, nor a response queue that cannot be used, holds up others."""
        self.patch(sys, "stdout", io.StringIO())
        nowhere = parse_format_name("DIRECT=TCP:127.0.0.3\\private$\\nowhere")
        for body in (b"9" * 20, b"9" * 5000, b"4", b"5"):
            order = Message(body=body, transactional=True, response_queue=nowhere)
            self.run_to_end(self.alpha.service.send(TO_BETA, [order]))
        self.clock.advance(30)
        # ResponseQueue is the AdminQueue, whose name a peer writes as it likes.
        peer = self.dial()
        peer.send(transactional(b"6", (7, 1, 0), admin="no name of a queue", user_flags=SAME_AS_ADMIN))
        peer.send(transactional(b"7", (7, 2, 1)))
        self.clock.advance(30)
        booked = sqlite3.connect(self.book).execute("select boxes from orders").fetchall()
        self.assertEqual(booked, [(4,), (5,), (6,), (7,)])


class ProgramTests(SynchronousTestCase):
    """The application on asyncio's reactor."""

    def test_runs_and_stops(self) -> None:
        """It prints its address, and ends on a signal."""
        address = own_address(64)
        # A path of trial's own may be longer than a unix socket's may be.
        directory = tempfile.mkdtemp(prefix="msmq-test-")
        self.addCleanup(shutil.rmtree, directory)
        process = subprocess.Popen(
            [sys.executable, os.fspath(ORDERS / "orders_service.py"), "data", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=directory,
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        output, _ = process.communicate()
        self.assertEqual(line, f"listens on TCP {address}:1801, UDP {address}:3527\n", output)
