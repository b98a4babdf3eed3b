"""The web console of a server with 10,000 queues, a queue of a million messages, a thousand sessions, and an
enterprise of 10,000 sites.

For each page: the first paint in Chromium, and the longest iteration of the server's reactor while it is
served, in processor time, so that a machine with other work changes it little; then the processor time of the
server while a page stays open.
C{python bench/console.py [QUEUES [MESSAGES [SESSIONS [SITES]]]]} prints the figures. Without Chromium and
Playwright the first paint is left out.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from twisted.internet.defer import Deferred, ensureDeferred, gatherResults
from twisted.internet.stdio import StandardIO
from twisted.internet.task import react
from twisted.protocols.basic import LineReceiver

from msmq.manager.service import QueueManagerService
from msmq.queues.arriving.message import Delivery, Message
from msmq.service.configuration import Overrides, load
from msmq.service.process.collector import settle
from msmq.service.process.descriptors import raise_descriptor_limit
from msmq.service.server import Server
from rig.flights import BENCH, environment
from rig.measuring import Result, Turns

QUEUES: Final = 10_000
MESSAGES: Final = 1_000_000
SESSIONS: Final = 1_000
SITES: Final = 10_000
LINKS_PER_SITE: Final = 5
PAINT_GOAL: Final = 1.0
"""Seconds until the first paint of a page."""
TURN_GOAL: Final = 10
"""Milliseconds of the longest iteration of the reactor."""
CORE_GOAL: Final = 1
"""Percent of a core while a page is open."""
OPEN: Final = 20.0
"""Seconds for which a page stays open."""
LOADS: Final = 3
"""Loads of each page; the fastest paint and the longest iteration count."""
CHROMIUM: Final = Path("/usr/bin/chromium")
QUEUE: Final = r".\private$\orders"
ABSENT: Final = "DIRECT=TCP:192.0.2.1\\private$\\billing"
TOKEN: Final = "bench-console-0123456789abcdef0123"
_BATCH: Final = 500
_AT_ONCE: Final = 200
_SETTINGS: Final = """[listen]
session = "tcp:0:interface=127.0.0.1"
ping = "off"
discovery = "off"
web = "tcp:0:interface=127.0.0.1"
[directory]
backend = "file:{enterprise}"
[security]
control_token_file = "{tokens}"
[limits]
quota = 4294967295
sessions_per_second = 1000000
max_connections_per_host = 100000
[timers]
session_cleanup = 86400
"""


class _Commands(LineReceiver):
    """C{begin} and C{end} around what is measured; the answer to C{end} is an object with the figures."""

    delimiter = b"\n"

    def __init__(self, turns: Turns, ended: Deferred[None]) -> None:
        self._turns = turns
        self._ended = ended
        self._used = time.process_time()

    def lineReceived(self, line: bytes) -> None:
        """A command."""
        if line == b"end":
            used = time.process_time() - self._used
            _say(turn=self._turns.longest * 1000, cpu=used)
            return
        self._used = time.process_time()
        self._turns.begin()
        _say(began=True)

    def connectionLost(self, reason: object = None) -> None:
        """The benchmark has ended."""
        self._ended.callback(None)


def _say(**values: object) -> None:
    print(json.dumps(values), flush=True)


async def _fill(manager: QueueManagerService, queues: int, messages: int) -> None:
    await manager.create_queue(QUEUE)
    for first in range(0, queues - 1, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, queues - 1))
        made = [manager.create_queue(f".\\private$\\queue-{number:05}", label="bench") for number in numbers]
        await gatherResults([ensureDeferred(each) for each in made])
    message = Message(body=bytes(200), label="order", delivery=Delivery.RECOVERABLE)
    for _ in range(messages // _BATCH):
        await manager.send(QUEUE, [message] * _BATCH)
    await manager.send(ABSENT, [message] * 3)
    for number in range(1000):
        manager.note("administered", f"bench: change {number}")


def _identifier(kind: int, number: int) -> str:
    return f"{kind:08x}-0000-4000-8000-{number:012x}"


def _gate(site: int) -> str:
    return f"gate{site}" if site else "ALPHA"


def _enterprise(sites: int) -> str:
    """The file of an enterprise: two queue managers in each site, one of which routes; ALPHA is the first."""
    chance = random.Random(1)
    parts = [f'[enterprise]\nid = "{_identifier(1, 0)}"\n']
    for number in range(sites):
        parts.append(
            f'[[site]]\nname = "site{number}"\nid = "{_identifier(2, number)}"\n'
            f'[[queue_manager]]\nname = "{_gate(number)}"\nid = "{_identifier(3, number)}"\n'
            f'sites = ["site{number}"]\nrouting_server = true\n'
            f'[[queue_manager]]\nname = "other{number}"\nid = "{_identifier(4, number)}"\n'
            f'sites = ["site{number}"]\n'
        )
    for number in range(1, sites):
        # The first makes a tree, so that every site can be reached.
        for other in {chance.randrange(number) for _ in range(min(number, LINKS_PER_SITE))}:
            parts.append(
                f'[[link]]\nsites = ["site{other}", "site{number}"]\ncost = {chance.randint(1, 1000)}\n'
                f'gates = ["{_gate(other)}", "{_gate(number)}"]\n'
            )
    return "".join(parts)


def _child(data: str, queues: int, messages: int, sites: int) -> None:
    """Run the server in this process, and obey commands."""

    async def main(reactor: Any) -> None:
        tokens, path = Path(data) / "tokens", Path(data) / "msmq.toml"
        tokens.touch(0o600)
        tokens.write_text(f"bench admin {TOKEN}\n", encoding="utf-8")
        enterprise = Path(data) / "enterprise.toml"
        enterprise.write_text(_enterprise(sites), encoding="utf-8")
        path.write_text(_SETTINGS.format(tokens=tokens, enterprise=enterprise), encoding="utf-8")

        def read() -> Any:
            return load(path, Overrides(name="ALPHA", data=data))

        server = Server(read(), reactor, source=read)
        server.startService()
        try:
            await server.started
            assert server.web is not None
            await _fill(server.manager, queues, messages)
            settle()
            turns = reactor._poller = Turns(reactor._poller)
            ended: Deferred[None] = Deferred()
            StandardIO(_Commands(turns, ended))
            session = server.addresses[0].rpartition(":")[2]
            _say(
                web=server.web[1],
                session=int(session),
                server=str(server.manager.inspection.identity.identifier),
            )
            await ended
        finally:
            await server.stopService()

    raise_descriptor_limit()
    react(lambda reactor: ensureDeferred(main(reactor)))


class ConsoleServer:
    """The process with the server."""

    def __init__(self, ends: ExitStack, queues: int, messages: int, sessions: int, sites: int) -> None:
        data = ends.enter_context(tempfile.TemporaryDirectory(prefix="msmq-bench-"))
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", data, str(queues), str(messages), str(sites)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        ends.callback(self._end)
        ready = self._hear()
        self._last = f"other{sites - 1}"
        self.base = f"http://127.0.0.1:{ready['web']}"
        peers = subprocess.Popen(
            [
                *(sys.executable, str(BENCH / "programs" / "peers.py")),
                *("127.0.0.1", str(ready["session"]), ready["server"], str(sessions)),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        ends.callback(peers.wait)
        ends.callback(peers.kill)
        assert peers.stdout is not None
        peers.stdout.readline()

    def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server has ended")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def _command(self, name: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        return self._hear()

    def measured(self, work: Callable[[], object]) -> dict[str, Any]:
        """The longest iteration (milliseconds) and the processor time (seconds) during some work."""
        self._command("begin")
        work()
        return self._command("end")

    def get(self, path: str) -> bytes:
        """One request."""
        request = urllib.request.Request(self.base + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            body: bytes = answer.read()
        return body

    def pages(self) -> dict[str, str]:
        """A path of each page."""
        [session, *_] = json.loads(self.get("/v1/sessions"))
        first = json.loads(self.get(f"/v1/queues/{quote(QUEUE, safe='')}/messages?limit=1").splitlines()[0])
        queue = urlencode({"queue": QUEUE})
        return {
            "overview": "/",
            "queues": "/queues",
            "queues, by messages": "/queues?sort=messages&order=down",
            "queues, filtered": "/queues?filter=queue-09",
            "a queue": f"/queue?{urlencode({'path': QUEUE})}",
            "messages": f"/messages?{queue}",
            "a message": f"/messages?{queue}&id={first['lookup_id']}",
            "messages, searched": f"/messages?{queue}&body=absent",
            "dead letters": "/deadletters",
            "outgoing": "/outgoing",
            "an outgoing queue": f"/outgoing_queue?{urlencode({'name': ABSENT})}",
            "sessions": "/sessions",
            "sessions, by received": "/sessions?sort=received&order=down",
            "a session": f"/session?id={session['identifier']}",
            "explain": f"/explain?{urlencode({'message': first['id']})}",
            "events": "/events",
            "events, filtered": "/events?text=change+77",
            "transactions": "/transactions",
            "enterprise": "/enterprise",
            "enterprise, with a route": f"/enterprise?source=ALPHA&destination={self._last}",
            "configuration": "/configuration?all=true",
        }


@contextmanager
def _browser() -> Iterator[Any]:
    """A page of Chromium; C{None} without it."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        yield None
        return
    if not CHROMIUM.exists():
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context(extra_http_headers={"Authorization": f"Bearer {TOKEN}"})
        yield context.new_page()
        browser.close()


_PAINT: Final = """() => new Promise(done => {
    const paint = () => performance.getEntriesByName("first-contentful-paint")[0];
    const look = () => paint() === undefined ? setTimeout(look, 10) : done(paint().startTime);
    look();
})"""


def measure(
    queues: int = QUEUES, messages: int = MESSAGES, sessions: int = SESSIONS, sites: int = SITES
) -> list[Result]:
    """The table's lines."""
    lines: list[Result] = []
    with ExitStack() as ends:
        server = ConsoleServer(ends, queues, messages, sessions, sites)
        page = ends.enter_context(_browser())
        for name, path in server.pages().items():
            turn, paint = 0.0, float("inf")
            for _ in range(LOADS):
                if page is None:
                    found = server.measured(partial(server.get, path))
                else:
                    found = server.measured(partial(page.goto, server.base + path))
                    paint = min(paint, page.evaluate(_PAINT) / 1000)
                turn = max(turn, found["turn"])
            if page is not None:
                goal = f"at most {PAINT_GOAL:g} s"
                lines.append(
                    Result(f"{name}: first paint", paint, "s", goal=goal, is_reached=paint <= PAINT_GOAL)
                )
            lines.append(_turn(name, turn))
        for name, path in (
            ("queues of the API", "/v1/queues"),
            ("sessions of the API", "/v1/sessions"),
            ("alarms of the API", "/v1/alarms"),
            ("topology of the API", "/v1/topology"),
        ):
            lines.append(_turn(name, server.measured(partial(server.get, path))["turn"]))
        if page is not None:
            for name, path in (("overview", "/"), ("events", "/events")):
                # The store verifies itself meanwhile: without and with the page, one after the other.
                page.goto("about:blank")
                before = server.measured(partial(time.sleep, OPEN))["cpu"]
                page.goto(server.base + path)
                found = server.measured(partial(time.sleep, OPEN))
                page.goto("about:blank")
                idle = (before + server.measured(partial(time.sleep, OPEN))["cpu"]) / 2
                used = 100 * max(0.0, found["cpu"] - idle) / OPEN
                goal = f"at most {CORE_GOAL} % of a core"
                what = f"{name}, open: more than without"
                baseline = 100 * idle / OPEN
                is_reached = used <= CORE_GOAL
                lines.append(
                    Result(what, used, "% of a core", baseline=baseline, goal=goal, is_reached=is_reached)
                )
                lines.append(_turn(f"{name}, open", found["turn"]))
    return lines


def _turn(name: str, turn: float) -> Result:
    goal = f"at most {TURN_GOAL} ms"
    return Result(f"{name}: longest iteration", turn, "ms", goal=goal, is_reached=turn <= TURN_GOAL)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        _child(sys.argv[2], *map(int, sys.argv[3:6]))
    else:
        from rig.measuring import table

        print(table(measure(*map(int, sys.argv[1:]))))
