"""A process whose files may not grow beyond a limit, as on a disk that fails; it prints what came of it."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from msmq.interfaces import StorageError
from msmq.queues.changes import PutQueue
from msmq.storage.sqlite import SqliteMessageStore
from tests.contracts.message_store import ORDERS, put


def limit_files(size: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


async def main(path: Path) -> None:
    store = SqliteMessageStore(path)
    await store.open()
    await store.commit([PutQueue(ORDERS)])
    limit_files(300_000)
    stored: list[int] = []
    errors: list[str] = []
    number = 0
    while len(errors) < 3:
        number += 1
        try:
            await store.commit([put(number, b"%d" % number * 5000)])
            stored.append(number)
        except StorageError as error:
            errors.append(str(error))
    read = await store.read(ORDERS.identifier, stored)
    limit_files(resource.RLIM_INFINITY)
    await store.commit([put(1000, b"after")])
    await store.close()
    sys.stdout.write(json.dumps({"stored": stored, "errors": errors, "read": len(read)}))
    sys.stdout.flush()
    os._exit(0)


def failed(failure: Failure) -> None:
    sys.stderr.write(failure.getTraceback())
    os._exit(1)


if __name__ == "__main__":
    Deferred.fromCoroutine(main(Path(sys.argv[1]))).addErrback(failed)
    reactor.run()
