"""A network of the tests' own, in which peers have other addresses than loopback."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from twisted.trial.unittest import SkipTest, SynchronousTestCase

_CLONE_NEWNET: Final = 0x40000000
NETWORK: Final = "10.77.0.0/16"
SERVER: Final = "10.77.0.1"
T = TypeVar("T")


class Namespace:
    """A network namespace whose every address of L{NETWORK} is local; it ends with the test.

    @ivar prefix: the words that run a command in it.
    """

    def __init__(self, test: SynchronousTestCase) -> None:
        self.name = f"msmq-budgets-{os.getpid()}"
        self.prefix = ["ip", "netns", "exec", self.name]
        problem = _problem(self.name)
        if problem and "CI" not in os.environ:
            raise SkipTest(f"no network namespace can be made: {problem}")
        test.assertEqual(problem, "", "no network namespace can be made")
        test.addCleanup(subprocess.run, ["ip", "netns", "delete", self.name], check=True)
        for words in (["link", "set", "lo", "up"], ["route", "add", "local", NETWORK, "dev", "lo"]):
            subprocess.run(["ip", "-n", self.name, *words], check=True)
        # One thread is in the namespace; a socket stays in the one in which it was made.
        self._thread = ThreadPoolExecutor(1)
        test.addCleanup(self._thread.shutdown)
        self.run(self._enter)

    def run(self, work: Callable[[], T]) -> T:
        """The result of something that makes sockets."""
        return self._thread.submit(work).result()

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(f"/var/run/netns/{self.name}", os.O_RDONLY)
        try:
            if libc.setns(descriptor, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(descriptor)

    def connect(self, source: str, port: int, timeout: float) -> socket.socket:
        """A connection to the server from an address of the network."""
        return self.run(lambda: socket.create_connection((SERVER, port), timeout, (source, 0)))

    def datagrams(self, source: str) -> socket.socket:
        """A socket for datagrams from an address of the network."""
        made = self.run(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made.bind((source, 0))
        return made


def _problem(name: str) -> str:
    """Make the namespace, or say why it cannot be made."""
    if shutil.which("ip") is None:
        return "the command ip (iproute2) is not installed"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return made.stderr.strip()
    return "" if Path(f"/var/run/netns/{name}").exists() else "ip netns add left nothing"


def hostile_address(number: int) -> str:
    """An address of a peer that is unknown: another one for each number up to 60,000."""
    return f"10.77.{1 + number // 250}.{1 + number % 250}"
