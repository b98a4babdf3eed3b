"""Migrations that are killed: one process is forked for each line on standard input, and
its end is printed.

A line is C{DIRECTORY SOURCE TARGET STEP SECONDS}: the process kills itself after so many steps, or after so
much time, whichever comes first; 0 is never.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from msmq.storage.migration.errors import AlreadyMoved
from msmq.storage.migration.migration import MigrationProgress
from msmq.storage.migration.store_locations import store_location_of
from tests.storage.migration.support import migrated


def failed(failure: Failure) -> None:
    if failure.check(AlreadyMoved):
        os._exit(0)
    sys.stderr.write(failure.getTraceback())
    sys.stderr.flush()
    os._exit(1)


def run(directory: str, source: str, target: str, step: int, seconds: float) -> None:
    # Not before: what a reactor waits for is not shared by two processes.
    from twisted.internet import reactor

    left = step

    def report(progress: MigrationProgress) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    # A process that does not handle the alarm is ended by it at any instruction.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    home = Path(directory)
    running = Deferred.fromCoroutine(
        migrated(store_location_of(source, home), store_location_of(target, home), report)
    )
    running.addCallbacks(lambda _: os._exit(0), failed)
    reactor.run()


if __name__ == "__main__":
    for line in sys.stdin:
        directory, source, target, step, seconds = line.split()
        if (child := os.fork()) == 0:
            run(directory, source, target, int(step), float(seconds))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
