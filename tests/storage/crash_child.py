"""The process that is killed: it does steps for ever, many at once, and says what it did.

C{h 7} before step 7 is handed over, C{c 7} when the store has said that it is done.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred, DeferredList
from twisted.python.failure import Failure

from msmq.interfaces import IMessageStore
from msmq.storage.factory import make_store
from tests.storage.crash_model import STEP, batch


def say(what: str, step: int) -> None:
    os.write(1, f"{what} {step}\n".encode())


async def perform(store: IMessageStore, step: int) -> None:
    say("h", step)
    await store.commit(batch(step))
    say("c", step)


async def main(description: str) -> None:
    store = make_store(description, Path())
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
    os._exit(1)


if __name__ == "__main__":
    Deferred.fromCoroutine(main(sys.argv[1])).addErrback(failed)
    reactor.run()
