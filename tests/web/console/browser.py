"""A real server with its console, and Debian's Chromium, for the tests of the process."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final
from unittest import SkipTest
from uuid import UUID

from playwright.sync_api import Browser, StorageState, sync_playwright
from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client.client import ControlClient
from msmq.structures.status import MQError
from tests.builders import BETA, establish, parameters
from tests.patience import DEADLINE
from tests.servers.own_address import own_address
from tests.servers.prepared import PROGRAMS, PreparedProcess, run

_HEADLESS: Final = Path("/usr/bin/chromium-headless-shell")
CHROMIUM: Final = _HEADLESS if _HEADLESS.exists() else Path("/usr/bin/chromium")
"""Without windows of its own if that is installed, which takes less processor time."""
ORDERS: Final = ".\\private$\\orders"
ABSENT: Final = f"DIRECT=TCP:{own_address(66)}\\private$\\billing"
TOKEN: Final = "console-browser-tests-0123456789abcdef"
HOSTILE: Final = (
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">\u202egnp"
)

ENTERPRISE: Final = f"""
[enterprise]
id = "{UUID(int=0xE0)}"
[[site]]
name = "Berlin"
id = "{UUID(int=0xE1)}"
[[site]]
name = "Rome"
id = "{UUID(int=0xE2)}"
[[link]]
sites = ["Berlin", "Rome"]
cost = 7
gates = ["IRIS", "WOLF"]
[[queue_manager]]
name = "ALPHA"
id = "{UUID(int=0xE3)}"
sites = ["Berlin"]
[[queue_manager]]
name = "IRIS"
id = "{UUID(int=0xE4)}"
address = "{own_address(66)}"
sites = ["Berlin"]
routing_server = true
[[queue_manager]]
name = "WOLF"
id = "{UUID(int=0xE5)}"
sites = ["Rome"]
routing_server = true
[[queue_manager]]
name = "LUCA"
id = "{UUID(int=0xE6)}"
sites = ["Rome"]
"""
"""Two sites; IRIS, over which ALPHA reaches LUCA, does not run."""

_HOSTILE_SITE: Final = f"""
[[site]]
name = {json.dumps(HOSTILE)}
id = "{UUID(int=0xE7)}"
[[link]]
sites = ["Rome", "{UUID(int=0xE7)}"]
cost = 3
gates = ["WOLF"]
"""

OPTIONS: Final = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync"
).split()


class ConsoleServer:
    """A server with queues, messages, dead letters and a waiting outgoing queue.

    @cvar enterprise: the file of its enterprise.
    """

    enterprise: ClassVar[str] = ENTERPRISE + _HOSTILE_SITE

    def __init__(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-console-"))
        atexit.register(shutil.rmtree, self.directory, ignore_errors=True)
        self._address = address = own_address(65)
        self.base = f"http://{address}:15801"
        self.data = self.directory / "alpha"
        self.configuration = configuration = self.directory / "alpha.toml"
        tokens = self.directory / "tokens"
        tokens.touch(0o600)
        tokens.write_text(f"desk admin {TOKEN}\n")
        enterprise = self.directory / "enterprise.toml"
        enterprise.write_text(self.enterprise)
        configuration.write_text(
            f'[listen]\nweb = "tcp:15801:interface={address}"\n[security]\ncontrol_token_file = "{tokens}"\n'
            f'[directory]\nbackend = "file:{enterprise}"\n'
        )
        self._options = (
            *("--config", configuration, "--name", "ALPHA", "--address", address),
            *("--data", self.data),
        )
        self.client = ControlClient(self.data / "control.sock")
        self.start()
        atexit.register(self.stop)
        self._fill()

    def start(self) -> None:
        """Start it, and wait until it runs; logins end with the server."""
        self._cookies: StorageState | None = None
        with (self.directory / "log").open("ab") as log:
            self._process = PreparedProcess(
                [PROGRAMS / "twistd", "-n", "--pidfile=", "msmq", *self._options],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
            )
        self._await_start()

    def stop(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(DEADLINE)

    def _await_start(self) -> None:
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            try:
                if self.client.status()["state"] == "running":
                    return
            except MQError:
                pass
            time.sleep(0.05)
        raise AssertionError((self.directory / "log").read_text()[-2000:])

    def _fill(self) -> None:
        self.msmq("queue", "create", ORDERS, "--label", "from the shop", "--log", "--journal")
        self.msmq("queue", "create", ".\\private$\\hostile", "--label", HOSTILE)
        lines = [{"label": f"order {number}", "body": f"<order>{number}</order>"} for number in range(60)]
        self.send(ORDERS, lines)
        self.send(".\\private$\\hostile", [{"label": HOSTILE, "body": HOSTILE}])
        self.lose("lost")
        self.send(ABSENT, [{"label": "waiting", "body": "2", "delivery": "recoverable"}])
        waiting = {"label": "routed", "body": "3", "delivery": "recoverable"}
        self.send(f"PRIVATE={UUID(int=0xE4)}\\00000001", [waiting])

    def cookies(self, browser: Browser) -> StorageState:
        """Those of an operator who has logged in with the token, which any window can have."""
        if self._cookies is None:
            context = browser.new_context()
            page = context.new_page()
            page.goto(self.base + "/login")
            page.get_by_label("Token").fill(TOKEN)
            page.get_by_role("button", name="Log in").click()
            page.wait_for_url(self.base + "/")
            self._cookies = context.storage_state()
            context.close()
        return self._cookies

    def open_session(self) -> str:
        """Open a session as a peer does, for as long as the process runs; gives its identifier."""
        peer = socket.create_connection((self._address, 1801), DEADLINE)
        atexit.register(peer.close)
        peer.sendall(establish(BETA) + parameters(500, 20_000, 64))
        with peer.makefile("rb") as answers:
            answers.read(572 + 32)
        [session] = [each for each in self.client.sessions() if each["state"] == "OPEN"][:1]
        identifier: str = session["identifier"]
        return identifier

    def lose(self, label: str) -> None:
        """Make a dead letter."""
        self.send(ABSENT, [{"label": label, "body": "1", "dead_letter": True, "delivery": "recoverable"}])
        self.msmq("outgoing", "purge", ABSENT, "--yes")

    def send(self, destination: str, messages: list[dict[str, Any]]) -> None:
        """Send messages with these properties."""
        file = self.directory / "messages"
        file.write_text("".join(json.dumps(message) + "\n" for message in messages))
        self.msmq("send", destination, "--json-lines", str(file))

    def msmq(self, *arguments: str) -> list[dict[str, Any]]:
        """Run the command, and read the objects that it prints."""
        command: list[str | Path] = [PROGRAMS / "msmq", *arguments, "--data", self.data, "--json"]
        done = run(command, timeout=DEADLINE, cwd=self.directory)
        if done.returncode:
            raise AssertionError((arguments, done.stdout, done.stderr))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def text(self, path: str) -> str:
        """A page as the server sends it."""
        request = urllib.request.Request(self.base + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            body: bytes = answer.read()
        return body.decode()


@cache
def shared_server() -> ConsoleServer:
    """The server of this process."""
    return ConsoleServer()


def start_browser(case: SynchronousTestCase) -> Browser:
    """The browser of this process; the windows that a test opens are closed at its end.

    @raise SkipTest: Chromium is not installed; in CI this is an error.
    """
    if not CHROMIUM.exists():
        problem = f"{CHROMIUM} is missing: the package chromium-headless-shell is not installed"
        if os.environ.get("CI") == "true":
            raise AssertionError(problem)
        raise SkipTest(problem)
    browser = shared_browser()
    browser.enter()
    case.addCleanup(browser.leave)
    return browser.chromium


class SharedBrowser:
    """One Chromium, since its start takes longer than most tests of pages.

    Its library runs an asyncio loop in the thread of the tests; the loop is the current one only during a
    test of pages, or coroutines of other tests would become its tasks.
    """

    def __init__(self) -> None:
        self._playwright = sync_playwright().start()
        self._loop = asyncio.get_running_loop()
        self.chromium = self._playwright.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS)
        atexit.register(self._stop)

    def enter(self) -> None:
        """Make its loop the current one."""
        asyncio._set_running_loop(self._loop)

    def leave(self) -> None:
        """Close all windows, and put its loop aside."""
        for context in self.chromium.contexts:
            context.close()
        asyncio._set_running_loop(None)

    def _stop(self) -> None:
        self.enter()
        self.chromium.close()
        self._playwright.stop()


@cache
def shared_browser() -> SharedBrowser:
    """The browser of this process."""
    return SharedBrowser()
