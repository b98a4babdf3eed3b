"""[MS-MQOD] 3.3 and 3.4: an administrator changes queues of another member, by its control API.

tests.integration.commands.test_other_members runs both with real servers and C{msmq --on HQ}.
Here the estate continues to send, and its directory has the change.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from msmq.control.server.factory import make_site
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.resources.estate_members import EstateMembers
from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.membership.objects import QueueObject
from msmq.membership.queries import equals
from tests.control.support import Caller
from tests.estates.support import EstateTestCase

ORDERS = ".\\private$\\orders"
PUBLIC = "ZETA\\orders"


class RemoteAdministrationTestCase(EstateTestCase):
    """The administrator's console talks to the control API of ZETA; business applications to ALPHA."""

    def ask(self, method: str, path: str, value: object = None) -> Any:
        """One request to ZETA."""
        members = EstateMembers(("ZETA", "zeta.example.com"), {}, None)
        site = make_site(
            self.zeta.service,
            members=members,
            limits=ControlLimits(),
            clock=self.clock.reactor,
            configuration=NoServerConfiguration(),
        )
        caller = Caller(site, self.clock)
        caller.ask(method, path, None if value is None else json.dumps(value).encode())
        self.wait(1)
        self.assertIn(caller.answer.status, (200, 201), caller.answer.body)
        return caller.answer.json

    def queue_resource(self, path: str) -> str:
        return f"/v1/queues/{quote(path, safe='')}"


class ModifyPublicQueueTests(RemoteAdministrationTestCase):
    """[MS-MQOD] 3.3 Example 3."""

    def test_directory_and_queue_manager(self) -> None:
        """The directory object and the queue have the new properties, and the queue works as before."""
        self.run_to_end(self.zeta.service.create_queue(PUBLIC, label="old"))
        self.send(self.alpha, PUBLIC, b"before")
        self.wait(5)
        shown = self.ask("PATCH", self.queue_resource(PUBLIC), {"label": "new", "quota": 64})
        self.assertEqual((shown["label"], shown["quota"], shown["messages"]), ("new", 64, 1))
        assert self.directory is not None
        reading = self.directory.read(QueueObject, [equals("pathname", PUBLIC)])
        held = self.successResultOf(reading).object
        self.assertEqual((held.label, held.quota), ("new", 64))
        self.assertEqual(self.zeta.service.inspection.queue(PUBLIC).label, "new")
        self.send(self.alpha, PUBLIC, b"after")
        self.wait(5)
        self.assertEqual(self.bodies(self.zeta, PUBLIC), [b"before", b"after"])


class RemotePrivateQueueTests(RemoteAdministrationTestCase):
    """[MS-MQOD] 3.4 Example 4."""

    def test_created_used_and_monitored(self) -> None:
        """A queue is created, applications send to it, and a query of its messages changes nothing."""
        created = self.ask("POST", "/v1/queues", {"path": ORDERS})
        self.assertEqual((created["path"], created["messages"]), (ORDERS, 0))
        self.send(self.alpha, created["format_name"], b"1", b"2", b"3")
        self.wait(5)
        for _ in range(2):
            self.assertEqual(self.ask("GET", self.queue_resource(ORDERS))["messages"], 3)
        self.assertEqual(self.bodies(self.zeta, ORDERS), [b"1", b"2", b"3"])
        self.assertEqual(self.ask("GET", self.queue_resource(ORDERS))["messages"], 0)
