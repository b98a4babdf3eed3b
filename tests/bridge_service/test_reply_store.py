"""The file with the addresses of requests."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge.replies import ReplyAddress
from msmq.bridge_service import reply_records
from msmq.bridge_service.reply_records import ReplyFile
from msmq.bridge_service.reply_store import ReplyStore


def keep(store: ReplyStore, sent: Awaitable[Sequence[str]], address: ReplyAddress) -> Deferred[None]:
    """Keep the address of requests, by their identifiers, once they are sent."""
    return Deferred.fromCoroutine(
        store.send(lambda _: sent, lambda found: [(each, address) for each in found])
    )


class RewriteTests(SynchronousTestCase):
    """A file with more lines than requests that may be answered."""

    def setUp(self) -> None:
        self.is_in_thread = False
        self.encoded_in_thread: list[bool] = []
        dumps = json.dumps

        def encode(*arguments: Any, **options: Any) -> str:
            self.encoded_in_thread.append(self.is_in_thread)
            return dumps(*arguments, **options)

        def run(work: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
            self.is_in_thread = True
            try:
                return maybeDeferred(work, *arguments)
            finally:
                self.is_in_thread = False

        self.patch(json, "dumps", encode)
        self.patch(reply_records, "deferToThread", run)
        self.patch(reply_records, "REWRITTEN", 200)

    def test_rewritten(self) -> None:
        """It is rewritten in a thread, with the requests that may still be answered, and a restart reads
        these.
        """
        path = Path(self.mktemp()) / "replies.jsonl"
        store = ReplyStore(ReplyFile(path), lambda: 0.0)
        store.load()
        for number in range(30):
            address = ReplyAddress("answers", f"{number}", 0.0)
            self.encoded_in_thread.clear()
            lines = self.lines(path)
            self.successResultOf(keep(store, succeed(["a" if number else "b"]), address))
            if self.lines(path) < lines:
                # Its own line only, to know its size and that of the one before, in the reactor.
                self.assertEqual(self.encoded_in_thread, [False, False, False, True, True])
                break
        else:
            self.fail("the file is not rewritten")
        again = ReplyStore(ReplyFile(path), lambda: 0.0)
        again.load()
        found = [None if (each := again.find(name)) is None else each.correlation_id for name in "ab"]
        self.assertEqual(found, [f"{number}", "0"])

    def lines(self, path: Path) -> int:
        """The lines of the file."""
        return path.read_bytes().count(b"\n") if path.exists() else 0
