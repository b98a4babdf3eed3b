"""A connector program: moves messages for a foreign site from its connector queues to a directory of files.

It runs on the computer of the connector server, the routing server that belongs to the foreign site::

    python examples/connector.py msmq-data SITE outbox

SITE is the GUID of the foreign site, as C{msmq topology} shows it.
Each message becomes two files, named by its identifier: C{.json} with its properties, and C{.body}.
A message is confirmed when its files are on disk; then its sender gets the acknowledgement of receipt that it
requested.
If the program dies before, the message comes again, and its files are replaced by the same: each message is
in the directory once.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

from msmq.client import Client

TOGETHER = 50
"""Messages that are confirmed together."""


def create_queues(client: Client, site: UUID) -> list[str]:
    """Create the missing connector queues of a site, and return the format names of both."""
    for suffix, transactional in (("", False), ("-xactonly", True)):
        client.create_queue(f".\\private$\\connector-{site}{suffix}", transactional=transactional)
    return [f"CONNECTOR={site}", f"CONNECTOR={site};XACTONLY"]


def carry(client: Client, queue: str, outbox: Path, timeout: float | None = None) -> int:
    """Move messages from a connector queue until none has arrived for some seconds; return their number."""
    carried = 0
    with client.consume(queue, count=TOGETHER, timeout=timeout) as consumer:
        for batch in consumer:
            with batch:
                for message in batch:
                    properties = json.dumps(dict(message.properties), indent=2).encode()
                    write(outbox, message.identifier, properties, message.body)
                sync(outbox)
            carried += len(batch)
    return carried


def write(outbox: Path, identifier: str, properties: bytes, body: bytes) -> None:
    """Write both files of a message; each is renamed into place when it is complete."""
    name = "".join(part if part.isalnum() or part == "-" else "_" for part in identifier)
    for suffix, content in ((".body", body), (".json", properties)):
        part = outbox / f"{name}{suffix}.part"
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(outbox / f"{name}{suffix}")


def sync(directory: Path) -> None:
    """Sync the directory, so that the names of the files are on disk too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def main(data: str, site: str, outbox: str, timeout: str | None = None) -> None:
    """Move messages of both queues, forever or until none has arrived for some seconds."""
    directory = Path(outbox)
    directory.mkdir(parents=True, exist_ok=True)
    client = Client(data)
    seconds = None if timeout is None else float(timeout)
    queues = create_queues(client, UUID(site))
    with ThreadPoolExecutor(len(queues)) as threads:
        carrying = [threads.submit(carry, client, queue, directory, seconds) for queue in queues]
        for queue, done in zip(queues, carrying, strict=True):
            print(f"{queue}: {done.result()} messages")


if __name__ == "__main__":
    main(*sys.argv[1:])
