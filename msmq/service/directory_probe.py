"""Checks the directory of a configuration in a separate process, since a reactor may run in this one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msmq.directory.factory import DirectoryDescriptionError, is_probed, probe_directory
from msmq.interfaces.plugins import DirectoryContext

if TYPE_CHECKING:
    from msmq.service.settings import Configuration

TIMEOUT: Final = 60.0
"""Seconds that the process may take; each server has five."""


def try_directory(configuration: Configuration) -> str:
    """L{probe_directory} for a configuration.

    @return: empty if the directory can be used; if it is unreachable, the reason.
    @raise DirectoryDescriptionError: it cannot be used.
    """
    if not is_probed(configuration.directory):
        # A process takes a second, and would ask nothing: a directory in a file is read at the start.
        return ""
    asked = {
        "directory": configuration.directory,
        "data": str(configuration.queue_manager.data),
        "options": {
            key: str(value) if isinstance(value, Path) else value
            for key, value in configuration.directory_options.items()
        },
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "msmq.service.directory_probe"],
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {TIMEOUT:g} seconds"
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return (done.stderr.decode(errors="replace").strip().splitlines() or ["no answer"])[-1]
    if answer["wrong"]:
        raise DirectoryDescriptionError(answer["wrong"])
    return str(answer["away"])


def main() -> None:
    """Try the directory that standard input describes, and print the result."""
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred
    from twisted.internet.interfaces import IReactorTime

    from msmq.net.clock import SystemClock

    asked = json.load(sys.stdin)
    context = DirectoryContext(SystemClock(), IReactorTime(reactor), Path(asked["data"]), asked["options"])
    found = {"wrong": "", "away": ""}

    def end(outcome: Any) -> None:
        error = getattr(outcome, "value", None)
        if error is None:
            found["away"] = outcome
        else:
            found["wrong" if isinstance(error, DirectoryDescriptionError) else "away"] = str(error)
        running: Any = reactor
        running.stop()

    running: Any = reactor
    running.callWhenRunning(
        lambda: Deferred.fromCoroutine(probe_directory(asked["directory"], context)).addBoth(end)
    )
    running.run()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
