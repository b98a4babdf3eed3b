"""Processes of C{twistd} and C{msmq} that start at once: they are forked with everything imported.

What a server imports takes a second of a processor, which is most of its life in a test, and the suite starts
hundreds of them.
Each process of the tests starts one interpreter for each of the two programs; it imports that once and forks.
What comes of it is a process with its own arguments, environment, directory and standard streams, a child of
the process that asked for it; it runs the program from its entry point to the end of the interpreter.
That a program finds its imports is what other tests show, which start it as users do: those of
L{tests.integration.test_server_process}, of the guides, of the examples, of the demo and of the wheel.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from twisted.internet import process as twisted_process
from twisted.internet.protocol import ProcessProtocol

PROJECT: Final = Path(__file__).resolve().parents[2]
PROGRAMS: Final = Path(sys.executable).parent

_LARGEST: Final = 0x20000
_PR_SET_CHILD_SUBREAPER: Final = 36
_FOR_THE_INTERPRETER: Final = ("PYTHON", "LD_", "LC_", "LANG", "FAKETIME")
"""What the variables begin with that an interpreter heeds when it starts."""


class PreparedProcess(subprocess.Popen[Any]):
    """C{subprocess.Popen}, quick for C{twistd} and C{msmq}, which are found by the last part of their path.

    What asks for more than a fork can have, such as another C{PYTHONPATH}, is started as any program is.
    """

    def _execute_child(self, args: Sequence[str | os.PathLike[str]], *rest: Any) -> None:
        arguments = [os.fspath(argument) for argument in args]
        directory, environment, pipes, is_group = rest[4], rest[5], rest[9:15], rest[20] or rest[21] != -1
        wanted = dict(os.environ if environment is None else environment)
        program = Path(arguments[0]).name
        if program not in ("twistd", "msmq") or is_group or not _can_fork(wanted):
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        streams = [own if pipe == -1 else pipe for own, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        self.pid = _interpreter(program).start(arguments, wanted, directory, streams)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class _PreparedTransport(twisted_process.Process):
    """What C{reactor.spawnProcess} gives."""

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


def _can_fork(environment: Mapping[str, str]) -> bool:
    """Whether an interpreter with these variables would start as that of the tests has."""
    return all(
        os.environ.get(name) == value
        for name, value in environment.items()
        if name.startswith(_FOR_THE_INTERPRETER)
    )


class _Interpreter:
    """The one that forks, as a child of this process, with which it ends."""

    def __init__(self, program: str) -> None:
        # A fork belongs to whoever asked for it once the process between them has ended.
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.servers.prepared", program, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=PROJECT,
            )

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: str | os.PathLike[str] | None,
        streams: Sequence[int],
    ) -> int:
        """Have a process started; gives its number."""
        place = os.fspath(Path(directory or ".").absolute())
        request = json.dumps([arguments, dict(environment), place]).encode("ascii")
        socket.send_fds(self._socket, [request], streams)
        answer = self._socket.recv(64)
        if not answer:
            raise AssertionError("the prepared interpreter has ended; its standard error says why")
        return int(answer)


@cache
def _interpreter(program: str) -> _Interpreter:
    return _Interpreter(program)


def _prepare_command() -> None:
    """Import what the verbs need that most tests use; a verb imports the rest."""
    import_module("msmq.cli.command")
    for verb in ("messages.receive", "messages.send", "queues.queue", "server.status"):
        import_module(f"msmq.cli.{verb}")
    import_module("msmq.control.client.client")


def _prepare_server() -> None:
    """Import all that a server needs, but no reactor, which is for each process to choose."""
    import twisted.internet

    name = "twisted.internet.reactor"
    # Klein's application takes one along for a method that the server does not call.
    placeholder = sys.modules[name] = twisted.internet.reactor = ModuleType(name)  # type: ignore[assignment]
    for needed in ("twisted.scripts.twistd", "twisted.internet.epollreactor", "msmq.service.tap"):
        import_module(needed)
    del sys.modules[name], twisted.internet.reactor
    keepers = {
        module
        for module, found in sys.modules.items()
        if any(value is placeholder for value in vars(found).values())
    }
    if name in sys.modules or keepers != {"klein._app"}:
        raise SystemExit(f"modules that take a reactor when they are imported: {sorted(keepers)}")


def _serve(requests: socket.socket) -> list[str] | None:
    """Fork at each request; the arguments in what was forked, and none when there are no more requests."""
    while True:
        request, streams, _, _ = socket.recv_fds(requests, _LARGEST, 3)
        if not request:
            return None
        reading, writing = os.pipe()
        between = os.fork()
        if not between:
            child = os.fork()
            if child:
                os.write(writing, b"%d" % child)
                os._exit(0)
            arguments, environment, directory = json.loads(request)
            for number in (reading, writing, requests.detach()):
                os.close(number)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            os.chdir(directory)
            os.environ.clear()
            os.environ.update(environment)
            return list(arguments)
        # Only when the process between has ended is the requester the parent, which can wait for its child.
        os.waitpid(between, 0)
        requests.send(os.read(reading, 64))
        for number in (reading, writing, *streams):
            os.close(number)


def _main() -> None:
    program, requests = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    (_prepare_server if program == "twistd" else _prepare_command)()
    if len(os.listdir("/proc/self/task")) != 1:
        raise SystemExit("an imported package has started a thread, which a fork loses")
    arguments = _serve(socket.socket(fileno=int(requests)))
    if arguments is None:
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path[0] = os.fspath(PROGRAMS)
    sys.argv = arguments
    if program == "twistd":
        from twisted.scripts.twistd import run as twistd

        twistd()
    else:
        from msmq.cli import main

        sys.exit(main())


if __name__ == "__main__":
    _main()
