"""Two servers of one queue manager over one schema, and what may happen to the active one."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msmq.client import Client
from msmq.structures.status import MQError
from tests.patience import DEADLINE
from tests.servers.postgresql import PostgresqlServer
from tests.servers.prepared import PROGRAMS, PreparedProcess

POLL = 0.02


class Node:
    """One of the servers, over its own data directory, in all its lives.

    @param options: further lines of its configuration.
    """

    def __init__(self, name: str, address: str, url: str, lease: float, options: Sequence[str] = ()) -> None:
        self.name = name
        # The path of a unix socket may have 107 bytes.
        self.home = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.data = self.home / "data"
        self.client = Client(self.data, reconnect=0)
        self._address = address
        self._process: subprocess.Popen[bytes] | None = None
        lines = (
            *("[queue_manager]", 'name = "ALPHA"'),
            *("[storage]", f'backend = "{url}"', "standby = true", f"standby_lease = {lease}"),
            *options,
        )
        (self.home / "msmq.toml").write_text("\n".join((*lines, "")), encoding="utf-8")

    def start(self) -> None:
        """Start a process, in whatever state it will be."""
        with (self.home / "log").open("ab") as log:
            self._process = PreparedProcess(
                [
                    *(PROGRAMS / "twistd", "-n", "--pidfile=", "msmq", "--config", self.home / "msmq.toml"),
                    *("--data", self.data, "--address", self._address),
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.home,
            )

    @property
    def running(self) -> subprocess.Popen[bytes]:
        """Its process."""
        assert self._process is not None
        return self._process

    def state(self) -> str:
        """The C{state} of its status; empty while it does not answer."""
        try:
            return str(self.client.status()["state"])
        except MQError:
            return ""

    def wait_for(self, *states: str) -> float:
        """Wait until it is in one of these states; returns the seconds."""
        began = time.monotonic()
        self.until(lambda: self.state() in states, f"{self.name} is not {' or '.join(states)}")
        return time.monotonic() - began

    def until(self, condition: Callable[[], bool], problem: str) -> None:
        """Wait for something."""
        give_up = time.monotonic() + DEADLINE
        while not condition():
            if time.monotonic() > give_up:
                raise AssertionError(f"{problem}: {self.output()[-3000:]}")
            time.sleep(POLL)

    def signal(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        self.running.send_signal(number)

    def wait(self) -> int:
        """Wait until its process has ended; returns the status."""
        return self.running.wait(DEADLINE)

    def output(self) -> str:
        """What all its processes have printed."""
        return (self.home / "log").read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        """End it and remove its directory."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait(DEADLINE)
        shutil.rmtree(self.home, ignore_errors=True)


class Pair:
    """An active server and its standby.

    @ivar active: the node that is the active one.
    @ivar standby: the other one.
    """

    def __init__(
        self,
        server: PostgresqlServer,
        schema: str,
        addresses: tuple[str, str],
        *,
        lease: float,
        options: Sequence[str] = (),
    ) -> None:
        self.server, self.schema = server, schema
        url = server.url(f"schema={schema}")
        self.active, self.standby = (
            Node(name, address, url, lease, options)
            for name, address in zip(("one", "two"), addresses, strict=True)
        )

    def start(self) -> None:
        """Start both, the active one first."""
        self.active.start()
        self.active.wait_for("running")
        self.standby.start()
        self.standby.wait_for("standby")

    def taken_over(self) -> float:
        """Wait until the standby is active; returns the seconds."""
        seconds = self.standby.wait_for("running")
        self.active, self.standby = self.standby, self.active
        return seconds

    def cut(self) -> None:
        """End the connections of the active server to the database, as an administrator does.

        When this returns the database has ended it.
        """
        with self.server.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(a.pid, 60000) FROM pg_locks l"
                " JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND l.granted"
                " AND l.classid::bigint = 1297304913"
                " AND l.objid::bigint = (SELECT oid::bigint FROM pg_namespace WHERE nspname = %s)",
                [self.schema],
            )

    def stored(self) -> int:
        """The messages in the database, counted without the server."""
        with self.server.connect() as connection:
            rows = connection.execute(f'SELECT count(*) FROM "{self.schema}".message'.encode()).fetchall()
        return int(str(rows[0][0]))

    def close(self) -> None:
        """End both and drop the schema."""
        self.active.close()
        self.standby.close()
        self.server.drop(self.schema)
