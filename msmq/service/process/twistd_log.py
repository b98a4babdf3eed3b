"""The log of a process that C{twistd} runs: what it writes by itself, and what options of C{twistd} name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TextIO, cast

from twisted.logger import ILogObserver, jsonFileLogObserver, textFileLogObserver
from twisted.python import usage
from twisted.python.logfile import LogFile

from msmq.service.process.log_output import LogOutput
from msmq.service.settings import LogSettings


class LoggedOptions(usage.Options):
    """Options of a command of C{twistd} with a log of its own."""

    file_observer: str | None = None
    """The log observer of Twisted that C{--logger} names, if it needs a file."""

    def postOptions(self) -> None:
        """Take over a log observer that needs a file: C{twistd} would create it without arguments."""
        main = cast("dict[str, Any] | None", self.parent)
        if main is not None and main.get("logger") in _FILE_OBSERVERS:
            self.file_observer = main["logger"]
            main["logger"] = None


_FILE_OBSERVERS: Final[Mapping[str | None, Callable[[TextIO], ILogObserver]]] = {
    # Without the record separator of RFC 7464 each line is an object that any reader of JSON lines accepts.
    "twisted.logger.jsonFileLogObserver": partial(jsonFileLogObserver, recordSeparator=""),
    "twisted.logger.textFileLogObserver": textFileLogObserver,
}
"""Creates a log observer of Twisted that needs a file."""


def log_output(options: LoggedOptions, settings: LogSettings) -> LogOutput | None:
    """What writes the log of a process in the foreground; C{None} if C{twistd} was given another log."""
    twistd: Mapping[str, Any] = options.parent or {}
    is_named = options.file_observer or twistd.get("logger")
    is_elsewhere = is_named or twistd.get("syslog") or twistd.get("logfile") not in (None, "-")
    if is_elsewhere or not twistd.get("nodaemon"):
        if settings != LogSettings():
            sys.stderr.write(
                "msmq: [log] applies only to twistd -n without --logfile, --logger and --syslog\n"
            )
        return None
    return LogOutput(settings, sys.stdout)


def file_observer(options: LoggedOptions) -> ILogObserver | None:
    """A log observer of Twisted that writes where C{twistd} would write; C{None} if none was named."""
    if options.file_observer is None:
        return None
    twistd: Mapping[str, Any] = options.parent or {}
    path = twistd.get("logfile")
    if twistd.get("nodaemon") and path in (None, "", "-"):
        file = sys.stdout
    else:
        file = cast(TextIO, LogFile.fromFullPath(path or "twistd.log"))
    return _FILE_OBSERVERS[options.file_observer](file)
