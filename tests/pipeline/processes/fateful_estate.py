"""Three real servers with three kinds of store, and messages whose fates are known to who sent them.

ALPHA (SQLite) sends, through the gate BETA (record log), to GAMMA (PostgreSQL) and to BETA itself.
BETA is killed while messages pass it.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import attrs

from tests.estates.processes import TIMERS, Member, home, started, wait_until
from tests.servers.own_address import own_address
from tests.servers.postgresql import PostgresqlServer

ORDERS_ID: Final = UUID(int=0x70001)
REPORTS_ID: Final = UUID(int=0x70002)
ORDERS: Final = r"GAMMA\orders"
REPORTS: Final = r"ALPHA\reports"
PAYMENTS: Final = r".\private$\payments"
SHORT: Final = r".\private$\short"
SMALL: Final = r".\private$\small"
PURGED: Final = r".\private$\purged"
RECEIVED: Final = r".\private$\received"
AGAIN: Final = r".\private$\again"
DEAD: Final = r".\system$;deadletter"
JOURNAL: Final = r".\system$;journal"
SETTINGS: Final = f'[queue_manager]\nreport_messages = true\n{TIMERS}[storage]\nbackend = "{{}}"\n'
SCHEMA: Final = "fateful"
NOWHERE: Final = 99
MACHINES: Final = {"ALPHA": 51, "BETA": 52, "GAMMA": 53}


def enterprise_file() -> str:
    """One site, whose routing server BETA is the only way out of ALPHA and into GAMMA."""
    lines = ["[enterprise]", f'id = "{UUID(int=0xE2)}"']
    lines += ["[[site]]", 'name = "Hub"', f'id = "{UUID(int=0x52000)}"']
    for name, number in MACHINES.items():
        lines += ["[[queue_manager]]", f'name = "{name}"', f'id = "{UUID(int=0xB000 + number)}"']
        lines += [f'address = "{own_address(number)}"', 'sites = ["Hub"]']
        lines += [f"routing_server = {str(name == 'BETA').lower()}"]
        if name != "BETA":
            lines += [f'{way}_routing_servers = ["BETA"]' for way in ("in", "out")]
    for path, identifier in ((ORDERS, ORDERS_ID), (REPORTS, REPORTS_ID)):
        lines += ["[[queue]]", f"path = '{path}'", f'id = "{identifier}"']
    return "\n".join(lines) + "\n"


@attrs.define
class FatefulEstate:
    """The servers, and what becomes of their messages.

    @ivar expected: the fate of each message by its identifier, as its sender knows it.
    @ivar traced: the identifiers of the traced messages.
    """

    running: ExitStack
    server: PostgresqlServer
    directory: Path = attrs.field(init=False)
    members: dict[str, Member] = attrs.field(init=False)
    expected: dict[str, str] = attrs.field(factory=dict, init=False)
    traced: list[str] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.directory = home(self.running)
        file = self.directory / "enterprise.toml"
        file.write_text(enterprise_file())
        self.server.drop(SCHEMA)
        self.running.callback(self.server.drop, SCHEMA)
        backends = {"ALPHA": "sqlite", "BETA": "log", "GAMMA": self.database}
        members = [
            Member(
                self.directory,
                name,
                own_address(MACHINES[name]),
                enterprise=file,
                settings=SETTINGS.format(backend),
            )
            for name, backend in backends.items()
        ]
        self.members = {member.name: member for member in started(self.running, members)}

    @property
    def database(self) -> str:
        """The store of GAMMA."""
        return self.server.url(f"schema={SCHEMA}")

    @property
    def enterprise(self) -> Path:
        """The enterprise file."""
        return self.directory / "enterprise.toml"

    @property
    def locations(self) -> dict[str, str]:
        """The stores, as inputs of jobs."""
        return {
            "ALPHA": str(self.members["ALPHA"].data),
            "BETA": str(self.members["BETA"].data),
            "GAMMA": self.database,
        }

    def address(self, name: str, queue: str) -> str:
        """The direct name of a private queue."""
        return rf"DIRECT=TCP:{self.members[name].address}\{queue.removeprefix('.' + chr(92))}"

    def send(
        self,
        fate: str,
        destination: str,
        count: int,
        *,
        sender: str = "ALPHA",
        first: int = 0,
        **properties: Any,
    ) -> list[str]:
        """Send messages that will have this fate."""
        bodies = [
            json.dumps({"order": first + number, "total": number * 1.5}).encode() for number in range(count)
        ]
        given = {"delivery": "recoverable", **properties}
        found = self.members[sender].send(destination, bodies, **given)
        self.expected |= dict.fromkeys(found, fate)
        return found

    def happen(self, count: int) -> None:
        """Everything that can happen to messages, to at least this number of each kind."""
        alpha, beta, gamma = (self.members[name] for name in MACHINES)
        wait_until(lambda: bool(alpha.client.topology()["sites"]), "ALPHA knows the sites")
        alpha.create(REPORTS, log=True)
        gamma.create(ORDERS, log=True)
        gamma.create(PURGED)
        gamma.create(AGAIN, log=True)
        beta.create(PAYMENTS, transactional=True, log=True)
        beta.create(RECEIVED, journal=True)
        beta.create(SHORT)
        beta.create(SMALL, quota=1)
        self.traced = self.send("delivered", ORDERS, 5, trace=str(REPORTS_ID), label="traced")
        # Reports are express: the death of the gate would lose them.
        reports = 4 * len(self.traced)
        wait_until(lambda: self.count("ALPHA", REPORTS) == reports, "ALPHA has the reports")
        self.send("delivered", ORDERS, count, first=5, journal=True)
        payments = self.address("BETA", PAYMENTS)
        self.send("delivered", payments, count, transactional=True, journal=True)
        # The gate is killed while messages pass it, and others wait for it.
        beta.kill()
        self.send("delivered", ORDERS, count, first=1000, journal=True)
        self.send("delivered", payments, count, transactional=True, journal=True)
        # It cannot be reached in time: a dead letter of the sender.
        nowhere = rf"DIRECT=TCP:{own_address(NOWHERE)}\private$\orders"
        self.send("dead_letter", nowhere, 4, time_to_reach_queue=1, dead_letter=True)
        beta.start()
        self.send("dead_letter", self.address("BETA", r".\private$\gone"), 3, dead_letter=True)
        self.send("expired_unread", self.address("BETA", SHORT), 6, time_to_be_received=1)
        self.send("delivered", self.address("BETA", RECEIVED), count)
        small = self.send("refused", self.address("BETA", SMALL), 12, body_type=8)
        self.send("purged", self.address("GAMMA", PURGED), 7, sender="BETA")
        for member in self.members.values():
            wait_until(lambda member=member: not member.waiting(), f"{member.name} has sent all")  # type: ignore[misc]
        orders = 2 * count + 5
        wait_until(lambda: self.count("GAMMA", ORDERS) == orders, f"GAMMA has {orders} orders")
        wait_until(lambda: self.count("BETA", PAYMENTS) == 2 * count, "BETA has the payments")
        wait_until(lambda: self.count("BETA", SHORT) == 0, "the short messages are over")
        wait_until(lambda: self.count("GAMMA", PURGED) == 7, "GAMMA has what is purged")
        gamma.client.purge_queue(PURGED)
        kept = {message["id"] for message in beta.client.browse(SMALL) if "id" in message}
        self.expected |= {one: "delivered" for one in small if one in kept}
        # Received without a trace but an event.
        beta.receive(RECEIVED, count)
        wait_until(lambda: self.count("ALPHA", DEAD) == 4, "ALPHA has what could not be sent in time")
        # There is no such queue at BETA, which keeps the dead letters.
        wait_until(lambda: self.count("BETA", DEAD) == 3, "BETA has what it refused")
        # Of a transactional message there is a copy when it has been received.
        wait_until(lambda: self.count("ALPHA", JOURNAL) == 2 * count, "ALPHA has the copies of orders")

    def count(self, name: str, path: str) -> int:
        """The messages in a queue."""
        return int(self.members[name].client.queue(path)["messages"])

    def fates(self) -> Counter[str]:
        """How many messages have each fate."""
        return Counter(self.expected.values())
