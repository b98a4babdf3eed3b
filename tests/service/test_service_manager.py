"""Notifications of systemd by a server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from msmq.service.process.service_manager import ServiceManager
from tests.project.example_files import PROJECT

UNITS = PROJECT / "packaging" / "systemd"


class ServiceManagerTests(SynchronousTestCase):
    """Datagrams to NOTIFY_SOCKET."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.path = str(self.directory / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.addCleanup(self.socket.close)
        self.clock = Clock()

    def heard(self) -> list[str]:
        """The notifications since the last call."""
        found: list[str] = []
        while True:
            try:
                found.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return found

    def test_a_life(self) -> None:
        """Ready, alive at half of the watchdog's time, reloading and ready again, stopping."""
        self.socket.bind(self.path)
        environment = {
            "NOTIFY_SOCKET": self.path,
            "WATCHDOG_USEC": "10000000",
            "WATCHDOG_PID": str(os.getpid()),
        }
        manager = ServiceManager.of(environment, self.clock, lambda: 10.0)
        manager.ready("listens")
        self.assertEqual(self.heard(), ["READY=1\nSTATUS=listens", "WATCHDOG=1"])
        self.clock.pump([5, 5])
        self.assertEqual(self.heard(), ["WATCHDOG=1"] * 2)
        manager.reloading()
        manager.reloaded("reloaded")
        self.assertEqual(self.heard(), ["RELOADING=1\nMONOTONIC_USEC=10000000", "READY=1\nSTATUS=reloaded"])
        manager.stopping()
        self.assertEqual(self.heard(), ["STOPPING=1"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_abstract_name(self) -> None:
        """An address with @ is in the abstract namespace; the watchdog of another process is not fed."""
        self.socket.bind(f"\0{self.path}")
        environment = {"NOTIFY_SOCKET": f"@{self.path}", "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"}
        ServiceManager.of(environment, self.clock).ready("x")
        self.assertEqual(self.heard(), ["READY=1\nSTATUS=x"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_without_one(self) -> None:
        """A server that was started by hand, or whose service manager is gone, works all the same."""
        for environment in ({}, {"NOTIFY_SOCKET": self.path}, {"WATCHDOG_USEC": "x"}):
            manager = ServiceManager.of(environment, self.clock)
            manager.ready("x")
            manager.reloading()
            manager.stopping()


class UnitTests(SynchronousTestCase):
    """The unit files."""

    def test_the_unit_is_hardened(self) -> None:
        """The exposure that systemd-analyze finds is below 3.0, on a scale to 10."""
        tool = shutil.which("systemd-analyze")
        if tool is None:
            raise SkipTest("systemd-analyze is not installed")
        for unit in "msmq.service", "msmq-bridge.service":
            done = subprocess.run(
                [tool, "security", "--offline=true", "--threshold=29", str(UNITS / unit)],
                capture_output=True,
                text=True,
                env={**os.environ, "SYSTEMD_PAGER": "cat"},
            )
            self.assertEqual(done.returncode, 0, done.stdout[-300:] + done.stderr)
