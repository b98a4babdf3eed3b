"""The broker that the tests of kills run: it writes each message to a file, once.

C{twistd msmq --broker tests.broker.ledger:Ledger}; the environment names the file.
"""

from __future__ import annotations

import os
from pathlib import Path

from msmq import Broker, Outcome, ReceivedMessage, accept

FILE = "MSMQ_TEST_LEDGER"
"""The variable with the path of the file."""


class Ledger(Broker):
    """Appends a line for each message that has none yet: it knows each by its identifier."""

    def __init__(self) -> None:
        super().__init__(queues={"orders": {}, "payments": {"transactional": True}})
        self._path = Path(os.environ[FILE])
        self._path.touch()
        # A line without an end was not finished by the process before.
        text = self._path.read_text()
        whole = text[: text.rfind("\n") + 1]
        os.truncate(self._path, len(whole))
        self._known = {line.split()[0] for line in whole.splitlines()}
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND)

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Write a line, and say that a message was passed."""
        identifier = str(message.identifier)
        print("passed", identifier, flush=True)
        if identifier not in self._known:
            self._known.add(identifier)
            os.write(self._file, f"{identifier} {message.queue} {message.body.decode()}\n".encode())
            os.fsync(self._file)
            print("written", identifier, flush=True)
        return accept()
