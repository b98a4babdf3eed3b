"""Processes that are killed: each does steps for ever, many at once, and says what it did.

The one that is started here never is: for each line on standard input, the description of a store, it forks
one that writes to that store, since an interpreter that has loaded everything takes most of a second.
It says C{p 123}, the identifier of the new process, and C{e -9}, how that ended.  In between the new one
says C{h 7} before step 7 is handed over, and C{c 7} when the store has said that it is done.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from msmq.interfaces import IMessageStore
from msmq.interfaces.storage import IMessageRuns
from msmq.storage.factory import make_store
from msmq.storage.log import LogMessageStore
from tests.storage.crash_model import STEP, batch
from tests.storage.policies import policy_at


def say(what: str, number: int) -> None:
    os.write(1, f"{what} {number}\n".encode())


async def perform(store: IMessageStore, step: int) -> None:
    say("h", step)
    await store.commit(batch(step, takes_runs=IMessageRuns.providedBy(store)))
    say("c", step)


async def main(store: IMessageStore) -> None:
    snapshot = await store.open()
    step = int(snapshot.state.get(STEP, b"0"))
    while True:
        waiting = []
        for _ in range(random.choice((1, 1, 3, 30))):
            step += 1
            waiting.append(Deferred.fromCoroutine(perform(store, step)))
        await DeferredList(waiting, fireOnOneErrback=True)


def failed(failure: Failure) -> None:
    sys.stderr.write(failure.getTraceback())
    sys.stderr.flush()
    os._exit(1)


def write_for_ever(store: IMessageStore) -> None:
    # Not before: what a reactor waits for is not shared by two processes.
    from twisted.internet import reactor

    random.seed()
    Deferred.fromCoroutine(main(store)).addErrback(failed)
    reactor.run()
    os._exit(1)


SEGMENTS = {"small-log": 512 * 1024, "tiny-log": 64 * 1024}


def made_store(description: str) -> IMessageStore:
    """The store of a description; C{small-log:DIRECTORY} is a log whose segments are soon full."""
    kind, _, directory = description.partition(":")
    place = Path(directory)
    if kind == "sqlite":
        return make_store(f"sqlite:{place.name}", place.parent)
    if kind not in SEGMENTS:
        # Beside the socket of its server.
        return make_store(description, Path(description.partition("host=")[2].partition("&")[0]))
    return LogMessageStore(
        place,
        policy_at(place.with_name("mark")),
        # As if the disk was quick: the reactor's thread writes small groups after the first few.
        clock=lambda: 0.0,
        segment_bytes=SEGMENTS[kind],
    )


if __name__ == "__main__":
    for line in sys.stdin:
        made = made_store(line.strip())
        if (child := os.fork()) == 0:
            write_for_ever(made)
        say("p", child)
        _, status = os.waitpid(child, 0)
        say("e", os.waitstatus_to_exitcode(status))
