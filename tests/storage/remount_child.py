"""A process that alone sees a file system of its own, which becomes read-only while a log on it is open.

C{python -m tests.storage.remount_child DIRECTORY} prints the result as JSON. It needs the rights
of root, and a mount namespace of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from msmq.interfaces import IMessageStore, StorageError
from msmq.persistence.changes import PutQueue
from msmq.storage.log import LogMessageStore
from msmq.testing.contracts.message_store import ORDERS, put
from msmq.testing.contracts.store_contract import remove
from tests.storage.policies import policy_at

IMAGE_BYTES = 64 * 1024 * 1024
SEGMENT = 1024 * 1024


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


async def attempted(commit: Callable[[], Awaitable[None]]) -> str:
    """The error of a commit; empty if it succeeded."""
    try:
        await commit()
    except StorageError as error:
        return str(error)
    return ""


def make(mounted: Path) -> IMessageStore:
    policy = policy_at(mounted / "mark")
    return LogMessageStore(mounted / "log", policy, clock=time.perf_counter, segment_bytes=SEGMENT)


async def work(directory: Path) -> dict[str, object]:
    """Store messages before and after the remount, and find what a repair of the file system leaves."""
    image, mounted = directory / "image", directory / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    run("mkfs.ext4", "-q", "-F", str(image))
    run("mount", "-o", "loop,errors=remount-ro", str(image), str(mounted))
    store = make(mounted)
    await store.open()
    await store.commit([PutQueue(ORDERS)])
    stored = list(range(200))
    for number in stored:
        await store.commit([put(number, b"%03d" % number * 1000)])
    # As ext4 does it after an error of its journal: open files stay open, and nothing can be written.
    run("mount", "-o", "remount,abort", str(mounted))
    errors = [
        await attempted(lambda: store.commit([put(1000, b"refused")])),
        await attempted(lambda: store.commit([remove(0)])),
    ]
    read = len(await store.read(ORDERS.identifier, stored))
    await store.close()
    run("umount", str(mounted))
    # 1: errors were corrected.
    repaired = subprocess.run(["e2fsck", "-p", str(image)], capture_output=True).returncode
    run("mount", "-o", "loop", str(image), str(mounted))
    store = make(mounted)
    snapshot = await store.open()
    left = [message[0] for message in snapshot.messages[ORDERS.identifier]]
    packets = await store.read(ORDERS.identifier, left)
    await store.commit([put(2000, b"after")])
    await store.close()
    run("umount", str(mounted))
    return {
        "stored": stored,
        "errors": errors,
        "read": read,
        "repaired": repaired,
        "left": left,
        "intact": [packet == b"%03d" % number * 1000 for number, packet in zip(left, packets, strict=True)],
    }


def main(directory: Path) -> None:
    def ended(result: dict[str, object] | Failure) -> None:
        if isinstance(result, Failure):
            sys.stderr.write(result.getTraceback())
        else:
            sys.stdout.write(json.dumps(result))
        reactor.stop()

    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(work(directory)).addBoth(ended))
    reactor.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
