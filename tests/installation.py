"""Installs the wheel as a user does, into an empty environment of each interpreter: C{make installation}.

In each, C{twistd msmq} starts without configuration, and a broker of twenty lines gets a message from it.
The dependencies come from the package index, in the versions of C{constraints.txt}; so this is not part of
the suite, which needs no network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.patience import DEADLINE
from tests.servers.own_address import own_address

PROJECT = Path(__file__).resolve().parent.parent

INTERPRETERS = ("3.11", "3.12", "3.13")
"""The versions of Python that the classifiers name."""

BROKER = '''"""Prints each message that arrives."""

from msmq import Broker, Outcome, ReceivedMessage, accept


class Printer(Broker):
    """A broker for every private queue."""

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Print a message, and confirm it."""
        print(f"received {bytes(message.body).decode()}", flush=True)
        return accept()
'''


def main() -> int:
    """Try each interpreter of this machine; the status is 0 only if all work."""
    failures = 0
    with tempfile.TemporaryDirectory(prefix="msmq-installation-") as name:
        workshop = Path(name)
        wheel = build_wheel(workshop)
        for version, python in interpreters():
            directory = workshop / version
            directory.mkdir()
            try:
                attempt(python, wheel, directory)
                print(f"Python {version}: twistd msmq and a broker work")
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failures += 1
                print(f"Python {version}: {error}")
                print(getattr(error, "stdout", None) or "")
    return 1 if failures else 0


def interpreters() -> Iterator[tuple[str, str]]:
    """The interpreters of this machine; of those that are not installed a line says so."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    for version in INTERPRETERS:
        candidates = [shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}.*/bin/python"))]
        for candidate in candidates:
            if candidate is not None and answers(candidate, version):
                yield version, candidate
                break
        else:
            print(f"Python {version} is not installed here")


def answers(python: str, version: str) -> bool:
    """Whether a command is that version of Python."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.strip() == version


def build_wheel(workshop: Path) -> Path:
    """Build the wheel from a copy of what is tracked, so that nothing is left in the checkout."""
    source = workshop / "source"
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=PROJECT, text=True)
    for name in filter(None, listed.split("\0")):
        if (PROJECT / name).is_file() and not name.startswith(("tests/", "bench/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, source / name)
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(workshop), str(source))
    [wheel] = workshop.glob("msmq-*.whl")
    return wheel


def pip(python: str | Path, *arguments: str) -> None:
    """Run pip."""
    quiet = ("--quiet", "--disable-pip-version-check")
    subprocess.run([str(python), "-m", "pip", *quiet, *arguments], check=True)


def attempt(python: str, wheel: Path, directory: Path) -> None:
    """Install into an empty environment, and exchange a message between two processes."""
    environment = directory / "environment"
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    binaries = environment / "bin"
    pip(binaries / "python", "install", "--constraint", str(PROJECT / "constraints.txt"), str(wheel))
    (directory / "printer.py").write_text(BROKER, encoding="utf-8")
    server, broker = own_address(1), own_address(2)
    running = [
        start(directory, binaries, "--data", "data", "--address", server),
        start(directory, binaries, "--broker", "printer:Printer", "--data", "broker", "--address", broker),
    ]
    try:
        for process in running:
            wait_for(process, "listens on")
        destination = f"DIRECT=TCP:{broker}\\private$\\greetings"
        sending = [str(binaries / "msmq"), "--data", "data", "send", destination, "--body", "hello"]
        subprocess.run(
            sending, cwd=directory, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        wait_for(running[1], "received hello")
    finally:
        for process in running:
            process.terminate()
            process.communicate(timeout=DEADLINE)


def start(directory: Path, binaries: Path, *options: str) -> subprocess.Popen[str]:
    """Start C{twistd msmq} in an empty directory."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.Popen(
        [str(binaries / "twistd"), "--nodaemon", "--pidfile=", "msmq", *options],
        cwd=directory,
        env={**inherited, "PYTHONPATH": str(directory)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    """Read the output of a process until a line has these words."""
    assert process.stdout is not None
    read = []
    for line in process.stdout:
        read.append(line)
        if words in line:
            return
    raise AssertionError(f"ended without {words!r}:\n{''.join(read)}")


if __name__ == "__main__":
    sys.exit(main())
