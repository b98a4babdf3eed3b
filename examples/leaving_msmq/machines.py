"""The computers of the example, and what runs on them until it is stopped."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msmq.client import Client


class Machine:
    """One queue manager, with the data directory DIRECTORY/NAME."""

    def __init__(self, name: str, addresses: Mapping[str, str], directory: Path) -> None:
        self.name, self.data = name, directory / name
        self._addresses, self._directory = addresses, directory
        self.client = Client(self.data, reconnect=60)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, settings: str = "") -> None:
        """Start its server; its client waits until it runs."""
        hosts = "".join(f'{name} = "{address}"\n' for name, address in self._addresses.items())
        configuration = self._directory / f"{self.name}.toml"
        configuration.write_text(f"{settings}\n[timers]\nsession_retry = 0.2\n[hosts]\n{hosts}")
        command = ["twistd", "-n", "--pidfile=", f"--logfile={self.data}.log", "msmq"]
        command += ["--name", self.name, "--address", self._addresses[self.name]]
        command += ["--data", str(self.data), "--config", str(configuration)]
        self._process = subprocess.Popen(command)

    def stop(self) -> None:
        """Stop its server."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def msmq(self, *arguments: str) -> None:
        """Run the command as an administrator of this machine does, and show it."""
        self.client.status()
        print(f"{self.name}$ msmq {' '.join(arguments)}", flush=True)
        subprocess.run(["msmq", "--data", str(self.data), *arguments], check=True)

    def pending(self, to: str) -> int:
        """Messages that a destination has not acknowledged."""
        command = ["msmq", "--data", str(self.data), "outgoing", "list", f"*OS:{to}\\*"]
        listed = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout
        return sum('"messages": 0,' not in line for line in listed.splitlines())


class Application:
    """A program that works until it is stopped; it looks whether it has been, after each piece of work."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=work, args=(self._stopping,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it after what it is doing."""
        self._stopping.set()
        self._thread.join()


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that has to happen."""
    give_up = time.monotonic() + 120
    while not condition():
        if time.monotonic() > give_up:
            raise SystemExit(f"it did not happen: {what}")
        time.sleep(0.05)
