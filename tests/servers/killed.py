"""Commands of C{twistd} that tests kill and start again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.servers.prepared import PreparedProcess


class KilledProcess:
    """A command of C{twistd} that is killed and started again on what it left behind."""

    def __init__(self, directory: Path, name: str, command: str, configuration: str) -> None:
        self.data = directory / name
        self.socket = self.data / "control.sock"
        path = directory / f"{name}.toml"
        path.write_text(configuration)
        self._log = directory / f"{name}.log"
        self._command = [
            os.fspath(Path(sys.executable).with_name("twistd")),
            *("-n", "--pidfile=", command, "--name", name, "--data", os.fspath(self.data)),
            *("--config", os.fspath(path)),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process."""
        with self._log.open("ab") as log:
            self._process = PreparedProcess(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def pid(self) -> int:
        """The identifier of the process."""
        assert self._process is not None
        return int(self._process.pid)

    def kill(self) -> None:
        """Kill the process at any moment."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
