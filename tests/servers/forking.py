"""An interpreter with the imports of C{twistd msmq}, C{msmq} or a Spark worker done, which forks on request.

L{tests.servers.prepared} starts it, and says which requests there are.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

LARGEST: Final = 0x20000
"""Bytes of a request: arguments and environment."""

_SEGMENT: Final = 1 << 20
"""Bytes of a segment of a record log."""

_PR_SET_PTRACER: Final = 0x59616D61
_PR_SET_PTRACER_ANY: Final = ctypes.c_ulong(-1)


def make_segments_small() -> None:
    """Make the segments of record logs smaller than the default of 16 MiB.

    A new log has five segments, so that a full disk stops no removal; in a file system in memory the kernel
    fills them with zeros for longer than all else takes at the start of a server.
    """
    store = import_module("msmq.storage.log.store").LogMessageStore
    store.__init__.__kwdefaults__["segment_bytes"] = _SEGMENT


def _prepare_command() -> None:
    """Import what most tests use of the verbs and of the configuration; a verb imports the rest."""
    import_module("msmq.cli.command")
    for verb in ("messages.receive", "messages.send", "queues.queue", "server.status"):
        import_module(f"msmq.cli.{verb}")
    import_module("msmq.control.client.client")
    import_module("msmq.service.configuration")
    if "twisted.internet.reactor" in sys.modules:
        raise SystemExit("a reactor was installed, which forks would share")


def _prepare_server() -> None:
    """Import all that a server needs, but no reactor, which is for each process to choose."""
    import twisted.internet

    name = "twisted.internet.reactor"
    # Klein's application takes one along for a method that the server does not call.
    placeholder = sys.modules[name] = twisted.internet.reactor = ModuleType(name)  # type: ignore[assignment]
    for needed in ("twisted.scripts.twistd", "twisted.internet.epollreactor", "msmq.service.tap"):
        import_module(needed)
    make_segments_small()
    del sys.modules[name], twisted.internet.reactor
    keepers = {
        module
        for module, found in sys.modules.items()
        if any(value is placeholder for value in vars(found).values())
    }
    if name in sys.modules or keepers != {"klein._app"}:
        raise SystemExit(f"modules that take a reactor when they are imported: {sorted(keepers)}")


def _prepare_spark() -> None:
    """Import what Spark's workers in Python need, and the data source with its readers of stores; but not the
    modules that they run.
    """
    for needed in (
        *("pandas", "pyarrow.compute", "pyarrow.parquet", "pyspark.serializers", "pyspark.sql.datasource"),
        *("pyspark.sql.pandas.serializers", "pyspark.sql.streaming.query", "pyspark.worker"),
        *("pyarrow.pandas_compat", "msmq.pipeline.spark.source", "msmq.pipeline.reading.placed_pages"),
        *("msmq.pipeline.packet_page", "msmq.storage.readers.log", "msmq.storage.readers.sqlite"),
    ):
        import_module(needed)
    for worker in Path(str(import_module("pyspark.sql.worker").__file__)).parent.glob("[a-z]*.py"):
        import_module(f"pyspark.sql.worker.{worker.stem}")


_PREPARE: Final = {"twistd": _prepare_server, "msmq": _prepare_command, "spark-python": _prepare_spark}


class _Forks:
    """The requests of one interpreter.

    @param requests: connected to the process of the tests, whose children its processes become.
    @param listener: where commands of a shell connect, each with one request.
    """

    def __init__(self, requests: socket.socket, listener: socket.socket) -> None:
        self._requests = requests
        self._listener = listener

    def serve(self) -> list[str] | None:
        """Fork at each request.

        @return: in what was forked, its arguments; C{None} when the process of the tests has ended.
        """
        while True:
            ready, _, _ = select.select([self._requests, self._listener], [], [])
            forked = self._request() if self._requests in ready else self._connection()
            if forked is not None:
                return forked or None

    def _request(self) -> list[str] | None:
        request, streams, _, _ = socket.recv_fds(self._requests, LARGEST, 3)
        if not request:
            return []
        reading, writing = os.pipe()
        between = os.fork()
        if not between:
            if os.fork():
                os._exit(0)
            *became, is_stopped = marshal.loads(request)
            self._become(streams, *became)
            os.write(writing, b"%d" % os.getpid())
            os.close(reading)
            os.close(writing)
            if is_stopped:
                _stop()
            return list(became[0])
        # Only when the process between has ended is the requester the parent, which can wait for its child.
        os.waitpid(between, 0)
        os.close(writing)
        self._requests.send(os.read(reading, 64))
        for number in (reading, *streams):
            os.close(number)
        return None

    def _connection(self) -> list[str] | None:
        """The process between remains the parent, and sends the command the exit status."""
        client, _ = self._listener.accept()
        if os.fork():
            client.close()
            self._reap()
            return None
        request, streams, _, _ = socket.recv_fds(client, LARGEST, 3)
        child = os.fork()
        if not child:
            client.close()
            *became, _ = marshal.loads(request)
            self._become(streams, *became)
            return list(became[0])
        for number in (self._requests.detach(), self._listener.detach(), *streams):
            os.close(number)
        client.send(b"%d" % child)
        ended = os.pidfd_open(child)
        ready, _, _ = select.select([ended, client.fileno()], [], [])
        if ended not in ready:
            # The command was killed.
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        try:
            client.send(b"%d" % os.waitstatus_to_exitcode(status))
        except ConnectionError:
            pass
        os._exit(0)

    def _reap(self) -> None:
        """Take note of the processes between that have ended since."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    def _become(
        self, streams: Sequence[int], _: list[str], environment: Mapping[str, str], directory: str
    ) -> None:
        """Take over the streams, the environment and the directory of a request."""
        for number in (self._requests.detach(), self._listener.detach()):
            os.close(number)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        _find_plugins(environment.get("PYTHONPATH", ""))


def _stop() -> None:
    """Wait for C{SIGCONT}; any process may trace this one meanwhile, even where only parents may."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)


def _find_plugins(path: str) -> None:
    """Look for plugins of Twisted in directories that this interpreter did not start with."""
    if added := [
        directory for directory in path.split(os.pathsep) if directory and directory not in sys.path
    ]:
        from twisted.plugin import pluginPackagePaths

        import twisted.plugins

        sys.path[1:1] = added
        twisted.plugins.__path__ = pluginPackagePaths("twisted.plugins")


def _run(arguments: Sequence[str]) -> None:
    """Run the program from its entry point on."""
    program = Path(arguments[0])
    sys.argv = list(arguments)
    sys.path[0] = os.fspath(Path(sys.executable).parent)
    if program.name == "twistd":
        from twisted.scripts.twistd import run as twistd

        twistd()
    elif program.name == "msmq":
        from msmq.cli import main

        sys.exit(main())
    elif program.name == "spark-python":
        option, what, *sys.argv[1:] = arguments[1:]
        if option == "-c":
            exec(what, {"__name__": "__main__"})
        else:
            runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.executable = arguments[0]
        del sys.argv[0]
        sys.path[0] = os.fspath(Path(sys.argv[0]).parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


def _run_to_the_end(arguments: Sequence[str]) -> None:
    """Run the program and end the process, without the end of the interpreter.

    The interpreter would destroy all that was imported; each page that forks share would be copied, which
    takes longer than most programs. It does so only after an exception, which it prints.
    """
    try:
        _run(arguments)
    except SystemExit as exiting:
        status = exiting.code
    else:
        status = None
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    end_process((status or 0) & 0xFF)


def _flush_files() -> None:
    """Flush all files, before a collection closes the parts of one in any order."""
    for found in gc.get_objects():
        if type(found) in (io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper) and not found.closed:
            found.flush()


def end_process(status: int) -> NoReturn:
    """What the interpreter does at its end, but for the destruction of modules."""
    # There is no public name for the next two steps.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    _flush_files()
    # Some objects report something when they are collected, such as a coroutine that was never awaited.
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> None:
    """Prepare, and fork until the process of the tests ends."""
    program, requests, listener = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _PREPARE[program]()
    if len(os.listdir("/proc/self/task")) != 1:
        raise SystemExit("an imported package has started a thread, which a fork loses")
    # What was imported stays for good, in pages that all forks share.
    gc.collect()
    gc.freeze()
    forks = _Forks(socket.socket(fileno=int(requests)), socket.socket(fileno=int(listener)))
    if arguments := forks.serve():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _run_to_the_end(arguments)


if __name__ == "__main__":
    main()
