"""A record log on a system that refuses to write: files may not grow, or nothing may be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import PutQueue
from msmq.storage.log.system import LocalSystem, LogWorker
from msmq.storage.log.workers import Call
from msmq.testing.contracts.store_contract import ORDERS, put
from tests.patience import DEADLINE
from tests.storage.log.support import LogTestCase
from tests.storage.mounts import PROJECT, READ_ONLY, run_mounted

TINY = 'mount -t tmpfs -o size=1m tmpfs "$1"'
UNPRIVILEGED = 65534
OPENING = """
import os
import sys
from pathlib import Path
from twisted.internet import reactor
from msmq.storage.factory import make_store

def report(outcome):
    print(outcome.getErrorMessage() if hasattr(outcome, "getErrorMessage") else "opened")
    reactor.stop()

store = make_store("log", Path(sys.argv[1]))
if len(sys.argv) > 2 and os.getuid() == 0:
    # The rights of a directory do not bind root.
    os.setuid(int(sys.argv[2]))
store.open().addBoth(report)
reactor.run()
"""

READING = """
import sys
from msmq.storage.readers import open_reader

[queue] = open_reader(sys.argv[1]).queues()
page = open_reader(sys.argv[1]).messages(queue.identifier, 0, 9, since=None, until=None, bodies=True)
print([row[-1].decode() for row in page.rows])
"""


class ShortSystem(LocalSystem):
    """A system with a limit on threads.

    @ivar left: how many more can be started.
    """

    def __init__(self, left: int) -> None:
        self.left = left

    def worker(self, name: str, call: Call) -> LogWorker:
        """See L{LocalSystem.worker}."""
        if not self.left:
            raise RuntimeError("can't start new thread")
        self.left -= 1
        return super().worker(name, call)


class RefusingSystemTests(LogTestCase):
    """A start, a commit and a reader when the system refuses to write."""

    segment_bytes = 1024 * 1024

    def test_files_that_may_not_grow(self) -> None:
        """No message is lost that was taken, removing works, and the log goes on once the limit is lifted."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.storage.limited_child", str(self.home / "log"), "fill_log"],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        reported = json.loads(done.stdout)
        self.assertIn("File too large", reported["errors"][0])
        self.assertEqual(reported["read"], len(reported["stored"]))
        self.assertGreater(reported["read"], 1)
        snapshot = self.done(self.make_store().open())
        index = [entry[0] for entry in snapshot.messages[ORDERS.identifier]]
        self.assertEqual(index, [*reported["stored"], 1000])

    def filled(self) -> None:
        (self.home / "data").mkdir()
        store = self.opened(PutQueue(ORDERS), put(1, b"one"))
        self.done(store.close())
        (self.home / "log").rename(self.home / "data" / "msmq.log")
        (self.home / "mark").rename(self.home / "data" / "msmq.log-mark")

    def test_file_system_for_reading(self) -> None:
        """A start says what is wrong and what to do, in one line, and changes nothing."""
        self.filled()
        data = self.home / "data"
        before = {path: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}
        done = run_mounted(READ_ONLY, data, sys.executable, "-c", OPENING, os.fspath(data))
        self.assertEqual(done.stderr, "")
        self.assertIn("Read-only file system; make its file system writable", done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1)
        after = {path: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}
        self.assertEqual(after, before)

    def test_disk_with_one_mebibyte(self) -> None:
        """A start without the space for a store says so in one line, with the figures, and fills nothing."""
        data = self.home / "data"
        data.mkdir()
        done = run_mounted(TINY, data, sys.executable, "-c", OPENING, os.fspath(data))
        self.assertEqual(done.stderr, "")
        reason = (
            "a new store needs 80 MiB, and its file system has 1 MiB free; free space, or put the data "
            "directory on a larger one"
        )
        self.assertEqual(done.stdout, f"{data / 'msmq.log'}: {reason}\n")

    def test_directory_without_rights(self) -> None:
        """A start that may not write the data directory says so in one line."""
        # Everything above it can be searched by that user too, which a directory of tests need not be.
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o555)
            done = subprocess.run(
                [sys.executable, "-c", OPENING, place, str(UNPRIVILEGED)],
                cwd=PROJECT,
                capture_output=True,
                text=True,
                timeout=DEADLINE,
            )
        self.assertEqual(
            (done.stdout, done.stderr),
            (f"{place}/msmq.log: cannot open: Permission denied; give the server's user access\n", ""),
        )

    def test_no_more_threads(self) -> None:
        """A start with fewer threads than a log needs says so, and has locked nothing for the next one."""
        self.done(self.opened(PutQueue(ORDERS), put(1, b"one")).close())
        running = threading.active_count()
        for threads in range(4):
            system = ShortSystem(threads)
            store = self.make_store(system=system)
            error = self.refused(store.open(), StorageError)
            self.assertIn("log: cannot open: can't start new thread; raise the limit", str(error))
            self.done(store.close())
            self.assertEqual(threading.active_count(), running)
            system.left = 4
            snapshot = self.done(store.open())
            self.assertEqual(len(snapshot.messages[ORDERS.identifier]), 1)
            self.done(store.close())

    def test_reader_of_a_file_system_for_reading(self) -> None:
        """A log is read where nothing can be written."""
        self.filled()
        data = self.home / "data"
        done = run_mounted(READ_ONLY, data, sys.executable, "-c", READING, os.fspath(data))
        self.assertEqual((done.stderr, done.stdout), ("", "['one']\n"))
