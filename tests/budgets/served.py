"""C{twistd} with a look at the iterations of its reactor: C{python tests/budgets/served.py FILE ...}.

At SIGUSR1 the processor time of the longest iteration since the last signal, in seconds, is written to FILE,
and the number of objects that the collector of cycles knows, after a collection.
At SIGUSR2 lines for the types of these objects follow, each with its number; to count them takes so long that
the next iterations are slower.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from twisted.internet import reactor as _reactor


class Turns:
    """Replaces the reactor's poll object: an iteration is the time between two calls of it."""

    def __init__(self, poller: Any) -> None:
        self._poller = poller
        self.longest = 0.0
        self.begin()

    def begin(self) -> None:
        """Begin to measure this iteration anew."""
        self._began = time.thread_time()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poller, name)

    def poll(self, *arguments: Any) -> Any:
        """See C{select.epoll.poll}."""
        self.longest = max(self.longest, time.thread_time() - self._began)
        found = self._poller.poll(*arguments)
        self._began = time.thread_time()
        return found


def main() -> None:
    """Run C{twistd} with the other arguments."""
    from twisted.scripts.twistd import run

    file = Path(sys.argv.pop(1))
    reactor: Any = _reactor
    turns = reactor._poller = Turns(reactor._poller)

    def report(number: int, _: object) -> None:
        longest, turns.longest = turns.longest, 0.0
        gc.collect()
        text = f"{longest:.6f} {len(gc.get_objects())}\n"
        if number == signal.SIGUSR2:
            kinds = Counter(type(each) for each in gc.get_objects())
            text += "".join(
                f"{count} {kind.__module__}.{kind.__qualname__}\n" for kind, count in kinds.most_common()
            )
        file.with_suffix(".new").write_text(text, encoding="utf-8")
        file.with_suffix(".new").rename(file)
        # The collection was not the server's.
        turns.begin()

    signal.signal(signal.SIGUSR1, report)
    signal.signal(signal.SIGUSR2, report)
    run()


if __name__ == "__main__":
    main()
