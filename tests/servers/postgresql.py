"""A PostgreSQL server of our own, from Debian's package or any other, and a way to cut it off.

It belongs to a user without rights, listens on a unix socket in a directory of its own alone, and ends with
the process that started it, however that ends.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, Literal

import psutil
import psycopg
from twisted.trial.unittest import SkipTest

from tests.patience import DEADLINE

USER: Final = "msmq"
"""A superuser who needs no password."""
GUARDED: Final = "guarded"
"""A user who needs the password C{hunter2}."""
PASSWORD: Final = "hunter2"

_USERS: Final = ("postgres", "nobody")
"""As whom the server runs where it is started by root, which it refuses to run as."""


def programs() -> Path:
    """The directory of the programs of the newest PostgreSQL.

    @raise SkipTest: there is none, or none that can be run.
    """
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3].split(".")[0])
    )
    on_path = shutil.which("postgres")
    if found:
        return found[-1].parent
    if on_path is not None:
        return Path(on_path).resolve().parent
    raise SkipTest("PostgreSQL is not installed (Debian's package postgresql)")


class PostgresqlServer:
    """One cluster in a directory of its own.

    @param place: where that directory is made, open to all users and with a short path.
    @param is_durable: whether it waits for the disk, which tests that kill it, and not the machine, need not.
    @ivar directory: of the unix socket and the data.
    """

    def __init__(self, *, place: str = "/tmp", is_durable: bool = False) -> None:
        self._is_durable = is_durable
        self._programs = programs()
        self._process: subprocess.Popen[bytes] | None = None
        # A unix socket's path may have 107 bytes, and root's own directories are closed to other users.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-pg-", dir=place))
        atexit.register(self.remove)
        self._user = next(filter(_exists, _USERS)) if os.getuid() == 0 else None
        if self._user is not None:
            shutil.chown(self.directory, self._user)
        self._data = self.directory / "data"
        if _TEMPLATE.is_made():
            _TEMPLATE.copy(self._data)
            self.start()
            return
        self._run(
            "initdb", "-D", self._data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        hba = self._data / "pg_hba.conf"
        hba.write_text(f"local all {GUARDED} scram-sha-256\nlocal all all trust\n")
        self.start()
        with self.connect() as connection:
            connection.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{PASSWORD}'")
        self.stop()
        _TEMPLATE.make(self._data)
        self.start()

    @property
    def socket(self) -> Path:
        """The unix socket, while it runs."""
        return self.directory / ".s.PGSQL.5432"

    def url(self, *options: str, user: str = USER) -> str:
        """The URL of its database C{postgres}."""
        return f"postgresql://{user}@/postgres?{'&'.join((f'host={self.directory}', *options))}"

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """A connection for a test that looks behind the store."""
        return psycopg.connect(self.url(), autocommit=True)

    def drop(self, schema: str) -> None:
        """Forget a schema, if there is one of this name."""
        with self.connect() as connection:
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'.encode())

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": os.fspath(self.directory),
            "fsync": "on" if self._is_durable else "off",
            "max_connections": "50",
            "shared_buffers": "32MB",
            "log_min_messages": "fatal",
            # A dropped schema tells about each of its tables.
            "client_min_messages": "warning",
        }
        options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix(), self._programs / "postgres", "-D", self._data, *options],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                start_new_session=True,
            )
        give_up = time.monotonic() + DEADLINE
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > give_up or self._process.poll() is not None:
                    said = (self.directory / "log").read_text(errors="replace")
                    raise AssertionError(f"{error}; {said[-2000:]}") from error
                time.sleep(0.02)

    def stop(self) -> None:
        """As an administrator stops it: connections are cut, and what was committed is on disk."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill all its processes at once, as a crash does."""
        processes = self._processes()
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if self._process is not None:
            self._process.wait(DEADLINE)
            self._process = None
        give_up = time.monotonic() + DEADLINE
        # A new one refuses to start as long as a process of the old one lives.
        while any(map(_lives, processes)):
            if time.monotonic() > give_up:
                raise AssertionError("processes of a killed server are left")
            time.sleep(0.01)

    def freeze(self) -> None:
        """Have all its processes stand still."""
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        """Resume the stopped processes."""
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def remove(self) -> None:
        """Stop it and remove its directory; doing that again does nothing."""
        if self._process is not None:
            self.thaw()
            self._end(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.remove)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(DEADLINE)
            self._process = None

    def _processes(self) -> list[psutil.Process]:
        if self._process is None:
            return []
        postmaster = psutil.Process(self._process.pid)
        return [postmaster, *postmaster.children(recursive=True)]

    def _prefix(self) -> list[str]:
        """Run as that user, and end with the process that started it."""
        user = [f"--reuid={self._user}", f"--regid={self._user}", "--init-groups"] if self._user else []
        return ["setpriv", *user, "--pdeathsig=QUIT"]

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [*self._prefix(), self._programs / program, *arguments],
            cwd=self.directory,
            capture_output=True,
            timeout=DEADLINE,
        )
        if done.returncode:
            raise AssertionError(done.stderr.decode(errors="replace"))


class _Template:
    """The data of a new server, of which further ones of this process begin: C{initdb} takes a second."""

    def __init__(self) -> None:
        self._directory: Path | None = None

    def is_made(self) -> bool:
        """Whether there is one to copy."""
        return self._directory is not None

    def make(self, data: Path) -> None:
        """Keep a copy of the data of a server that was stopped."""
        directory = Path(tempfile.mkdtemp(prefix="msmq-test-pg-"))
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        self._directory = directory / "data"
        _copy(data, self._directory)

    def copy(self, data: Path) -> None:
        """Make the data of another server."""
        assert self._directory is not None
        _copy(self._directory, data)


def _copy(source: Path, target: Path) -> None:
    # With owners and modes, which PostgreSQL checks.
    subprocess.run(["cp", "--archive", source, target], check=True, timeout=DEADLINE)


_TEMPLATE: Final = _Template()

_COMMITTED: Final = b"C\0\0\0\x0bCOMMIT\0"
_SHUT_DOWN: Final = b"E\0\0\0\x3cSFATAL\0VFATAL\0C57P01\0Mterminating the connection: stop\0\0"
"""Answers of a server: a transaction is committed, and the server is being stopped."""


class Proxy:
    """Stands between a store and a server, on a port of 127.0.0.1, and can act as a bad network.

    @ivar port: where it listens.
    @ivar held: how often something came that is held, or the end of a connection was made.
    """

    def __init__(self, server: PostgresqlServer) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._is_shut = False
        self._ends_after_commit = False
        self._asked = b""
        self.held = 0
        self._passes = {"requests": threading.Event(), "answers": threading.Event()}
        for event in self._passes.values():
            event.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, *options: str, user: str = USER) -> str:
        """The URL of the server's database C{postgres}, through the proxy."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/postgres?{'&'.join(options)}"

    def hold(self, what: Literal["requests", "answers"]) -> None:
        """Pass on no more of what goes in this direction."""
        self._passes[what].clear()

    def hold_answers_to(self, text: bytes) -> None:
        """Pass on no more answers from the next request on that has these bytes.

        Whatever the client asks for by itself before that, to clean up for example, is answered.
        """
        self._asked = text

    def end_after_commit(self) -> None:
        """Have the server end the connection that commits next, after the commit, as a shutdown does.

        The client reads the server's last message before the end of the stream.
        """
        self._ends_after_commit = True

    def cut(self) -> None:
        """End every connection, and each new one at once; what is held is gone."""
        self._is_shut = True
        for pair in self._pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    def mend(self) -> None:
        """Let everything pass again."""
        for event in self._passes.values():
            event.set()
        self._is_shut = False

    def close(self) -> None:
        """Be gone, with all that is held."""
        self.cut()
        self.mend()
        self._is_shut = True
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._is_shut:
                    near.close()
                    continue
                far = socket.socket(socket.AF_UNIX)
                try:
                    far.connect(os.fspath(self._server.socket))
                except OSError:
                    near.close()
                    far.close()
                    continue
                self._pairs.append((near, far))
                for source, target, what in ((near, far, "requests"), (far, near, "answers")):
                    threading.Thread(target=self._pass, args=(source, target, what), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, what: str) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self._asked and what == "requests" and self._asked in data:
                    self._asked = b""
                    self.hold("answers")
                if not self._passes[what].is_set():
                    self.held += 1
                    self._passes[what].wait()
                if self._ends_after_commit and what == "answers" and _COMMITTED in data:
                    self._ends_after_commit = False
                    self.held += 1
                    target.sendall(data[: data.index(_COMMITTED)] + _COMMITTED + _SHUT_DOWN)
                    source.shutdown(socket.SHUT_RDWR)
                    return
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@cache
def shared_server() -> PostgresqlServer:
    """One server for all tests of the process that do not harm it; each test takes a schema of its own.

    @raise SkipTest: PostgreSQL is not installed.
    """
    return PostgresqlServer()


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
