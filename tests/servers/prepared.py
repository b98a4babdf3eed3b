"""Processes of C{twistd}, C{msmq} and Python programs that start at once: they are forked with all imported.

What a server imports takes a second of a processor, which is most of its life in a test, and the suite starts
hundreds of them.
Each process of the tests starts one interpreter for each of the two commands; it imports that once and forks
(L{tests.servers.forking}).
The result is a process with its own arguments, environment, directory and standard streams, a child of the
process that requested it; it runs the program from its entry point to the end of the interpreter.
A shell, and a program that starts servers, find such commands in L{bin_directory}; the process of a command
that is killed ends a moment later.
That a program finds its imports is what other tests show, which start it as users do: those of
L{tests.integration.test_server_process}, of the README, of some examples and of the wheel.
"""

from __future__ import annotations

import atexit
import ctypes
import marshal
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, cast

from twisted.internet import process as twisted_process
from twisted.internet.protocol import ProcessProtocol

from tests.servers.forking import LARGEST

PROJECT: Final = Path(__file__).resolve().parents[2]
PROGRAMS: Final = Path(sys.executable).parent

_PR_SET_CHILD_SUBREAPER: Final = 36
_ONE_AT_A_TIME: Final = Lock()
"""Of requests, since several threads of a test may start processes."""

WITHOUT_THREADS: Final = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Settings under which an import of numpy or Arrow starts no thread, which a fork would lose."""

_FOR_THE_INTERPRETER: Final = ("PYTHON", "LD_", "LC_", "LANG", "FAKETIME")
"""What the variables begin with that an interpreter heeds when it starts."""


class PreparedProcess(subprocess.Popen[Any]):
    """C{subprocess.Popen}, quick for C{twistd}, C{msmq} and files of Python.

    What needs more than a fork can have, such as another C{PYTHONPATH}, is started as any program is.

    @cvar is_stopped: the process waits for C{SIGCONT} before it begins, so that a tracer can be attached.
    """

    is_stopped = False

    # The only step of Popen that starts the process; pipes, waiting and signals stay those of the library,
    # and no public method replaces this step alone.
    def _execute_child(self, args: Sequence[str | os.PathLike[str]], *rest: Any) -> None:
        arguments = [os.fspath(argument) for argument in args]
        directory, environment, pipes, is_group = rest[4], rest[5], rest[9:15], rest[20] or rest[21] != -1
        wanted = dict(os.environ if environment is None else environment)
        program = _prepared_by(arguments)
        if program is None or is_group or not _can_fork(wanted):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        streams = [own if pipe == -1 else pipe for own, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        self.pid = _interpreter(program).start(arguments, wanted, directory, streams, self.is_stopped)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class _PreparedTransport(twisted_process.Process):
    """The transport that C{reactor.spawnProcess} returns."""

    # spawnProcess takes no factory of processes, and this is the only step that starts one.
    def _fork(
        self, path: str, uid: None, gid: None, executable: str, args: Any, environment: Any, **kwargs: Any
    ) -> None:
        streams = [kwargs["fdmap"][number] for number in range(3)]
        self.pid = _interpreter(executable).start(args, environment, path, streams)
        self.status = -1


def spawn(
    protocol: ProcessProtocol, command: Sequence[str], environment: Mapping[str, str], directory: str
) -> None:
    """C{reactor.spawnProcess} for one of them, by its name."""
    from twisted.internet import reactor

    program, *arguments = command
    if _can_fork(environment):
        _PreparedTransport(reactor, program, command, environment, directory, protocol)
    else:
        path = os.fspath(PROGRAMS / program)
        cast(Any, reactor).spawnProcess(protocol, path, [path, *arguments], environment, directory)


def run(
    args: Sequence[str | os.PathLike[str]], *, timeout: float, cwd: str | os.PathLike[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one of them to its end, and keep what it prints."""
    with PreparedProcess(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, output, errors)


def _prepared_by(arguments: Sequence[str]) -> str | None:
    """The command whose interpreter has imported what this process needs; C{None} if none has."""
    program = Path(arguments[0])
    if program.name in ("twistd", "msmq"):
        return program.name
    is_python = program.name == Path(sys.executable).name and program.samefile(sys.executable)
    return "twistd" if is_python and len(arguments) > 1 and arguments[1].endswith(".py") else None


def _can_fork(environment: Mapping[str, str]) -> bool:
    """Whether an interpreter with these variables would start as that of the tests has."""
    return all(
        os.environ.get(name) == value or (name == "PYTHONPATH" and _adds_plugins(value))
        for name, value in environment.items()
        if name.startswith(_FOR_THE_INTERPRETER)
    )


def _adds_plugins(path: str) -> bool:
    """Whether a C{PYTHONPATH} adds only directories of plugins, which are looked for when they are needed."""
    new = [each for each in path.split(os.pathsep) if each and each not in sys.path]
    return all(os.listdir(directory) == ["twisted"] for directory in new)


@cache
def bin_directory() -> Path:
    """A virtual environment like that of the tests, whose C{twistd} and C{msmq} start forked processes.

    @return: its C{bin}.
    """
    home = Path(tempfile.mkdtemp(prefix="msmq-test-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    shutil.copy(PROGRAMS.parent / "pyvenv.cfg", home)
    (home / "lib").symlink_to(PROGRAMS.parent / "lib")
    directory = home / "bin"
    directory.mkdir()
    (directory / Path(sys.executable).name).symlink_to(sys.executable)
    for program in ("twistd", "msmq"):
        _make_command(directory, program)
    return directory


@cache
def spark_python() -> Path:
    """An interpreter for C{PYSPARK_PYTHON}, whose processes are forked with Spark's workers imported.

    It takes what Spark starts: C{-m MODULE}, a worker, and C{-c CODE}, a question for its version.
    """
    directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return _make_command(directory, "spark-python")


def _make_command(directory: Path, program: str) -> Path:
    (directory / f".{program}").symlink_to(_interpreter(program).address)
    client = (PROJECT / "tests" / "servers" / "command_client.py").read_text(encoding="utf-8")
    command = directory / program
    command.write_text(f"#!{sys.executable} -IS\n{client}", encoding="utf-8")
    command.chmod(0o755)
    return command


def prepared_python() -> Path:
    """The interpreter of L{bin_directory}: what it runs finds those commands where it is itself."""
    return bin_directory() / Path(sys.executable).name


class _Interpreter:
    """The one that forks, as a child of this process, with which it ends.

    @ivar address: where commands of a shell find it.
    """

    def __init__(self, program: str) -> None:
        # A fork belongs to the process that asked for it once the process between them has ended.
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST)
        directory = tempfile.mkdtemp(prefix="msmq-test-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        self.address = f"{directory}/socket"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(self.address)
        listener.listen()
        with theirs, listener:
            numbers = [theirs.fileno(), listener.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.servers.forking", program, *map(str, numbers)],
                pass_fds=numbers,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=PROJECT,
                env={**os.environ, **WITHOUT_THREADS},
            )

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: str | os.PathLike[str] | None,
        streams: Sequence[int],
        is_stopped: bool = False,
    ) -> int:
        """Have a process started; gives its number."""
        place = os.fspath(Path(directory or ".").absolute())
        request = marshal.dumps((list(arguments), dict(environment), place, is_stopped))
        with _ONE_AT_A_TIME:
            socket.send_fds(self._socket, [request], streams)
            answer = self._socket.recv(64)
        if not answer:
            raise AssertionError("the prepared interpreter has ended; its standard error says why")
        return int(answer)


def _interpreter(program: str) -> _Interpreter:
    with _ONE_AT_A_TIME:
        return _made_interpreter(program)


@cache
def _made_interpreter(program: str) -> _Interpreter:
    return _Interpreter(program)
