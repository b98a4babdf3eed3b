"""Tests of what C{twistd msmq} makes of its options."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from twisted.application.service import IService, IServiceMaker
from twisted.internet.defer import Deferred
from twisted.internet.error import ReactorNotRunning
from twisted.internet.testing import MemoryReactorClock
from twisted.plugin import IPlugin, getPlugins
from twisted.python.failure import Failure
from twisted.python.usage import UsageError
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from msmq.interfaces.storage import StorageError
from msmq.service.configuration import Overrides, load
from msmq.service.process.service_manager import ServiceManager
from msmq.service.server import Server
from msmq.service.server_ports import StartError
from msmq.service.settings import Configuration
from msmq.service.tap import Options, makeService
from msmq.service.twistd_service import ExitStatus, TwistdService


def parsed(*arguments: str) -> Options:
    options = Options()
    options.parseOptions(list(arguments))
    return options


class PluginTests(SynchronousTestCase):
    def test_twistd_finds_it(self) -> None:
        """C{twistd --help} lists C{msmq}, and finds options and service behind it."""
        [maker] = [maker for maker in getPlugins(IServiceMaker) if maker.tapname == "msmq"]
        verifyObject(IServiceMaker, maker)
        verifyObject(IPlugin, maker)
        self.assertIs(maker.options, Options)
        self.assertIs(maker.makeService, makeService)


class OptionsTests(SynchronousTestCase):
    def test_knows_the_options(self) -> None:
        """Each option of the contract is read."""
        options = parsed(
            *("--config", "f", "--data", "d", "--name", "n", "--address", "a"),
            *("--storage", "s", "--directory", "x"),
        )
        self.assertEqual(
            dict(options),
            {
                "accept-loss": 0,
                "config": "f",
                "data": "d",
                "name": "n",
                "address": "a",
                "storage": "s",
                "directory": "x",
                "broker": None,
            },
        )

    def test_refuses_what_it_does_not_know(self) -> None:
        """An unknown option or a stray argument is a usage error, which C{twistd} reports."""
        self.assertRaises(UsageError, parsed, "--port", "1801")
        self.assertRaises(UsageError, parsed, "alpha")


class MakeServiceTests(SynchronousTestCase):
    def test_makes_a_service(self) -> None:
        """The options reach the server."""
        service = makeService(parsed("--name", "ALPHA", "--address", "127.0.0.9", "--data", "here"))
        verifyObject(IService, service)
        assert isinstance(service, TwistdService)
        assert isinstance(service.server, Server)
        configuration = service.server.configuration
        self.assertEqual(configuration.queue_manager.name, "ALPHA")
        self.assertEqual(configuration.queue_manager.data, Path.cwd() / "here")
        self.assertEqual(str(configuration.listen.session), "TCP 127.0.0.9:1801")

    def test_reports_every_problem_and_ends(self) -> None:
        """A configuration with mistakes ends the process with one line for each, and no traceback."""
        path = Path(str(self.mktemp()))
        path.write_text("[limits]\nquota = 0\n[listen]\nport = 1801\n")
        ended = self.assertRaises(
            SystemExit, makeService, parsed("--config", os.fspath(path), "--address", "x")
        )
        self.assertEqual(
            str(ended.code).splitlines(),
            [
                "--address: must be an IP address, not 'x'",
                f"{path}:2: limits.quota: must be from 1 to 4294967295 KiB, not 0",
                f"{path}:4: listen.port: is not a key of [listen]",
            ],
        )


class LateServer(Server):
    """A server whose start takes as long as the test wants."""

    def startService(self) -> None:
        self.started = Deferred()


class Reactor(MemoryReactorClock):
    """A reactor that also takes calls from signal handlers, and refuses a second stop."""

    def stop(self) -> None:
        if self.hasStopped:
            raise ReactorNotRunning("Can't stop reactor that isn't running.")
        super().stop()

    def callFromThread(self, function: Callable[[], object]) -> None:
        self.callLater(0, function)


class TwistdServiceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.data)
        self.reactor = Reactor()
        self.status = ExitStatus()
        self.stderr = io.StringIO()
        self.manager = ServiceManager("", None, self.reactor)

    def service(self) -> TwistdService:
        path = Path(str(self.mktemp()))
        path.write_text('[listen]\nping = "off"\n')
        overrides = Overrides(data=os.fspath(self.data), address="127.0.0.9", storage="memory")
        configuration = load(path, overrides)
        return TwistdService(
            Server(configuration, self.reactor), self.reactor, self.status, self.stderr, self.manager
        )

    def test_starts_and_stops_the_server(self) -> None:
        """Without problems it only passes on."""
        service = self.service()
        service.startService()
        self.successResultOf(service.server.started)
        self.assertEqual([port[3] for port in self.reactor.tcpServers], ["127.0.0.9"])
        self.successResultOf(service.stopService())
        self.assertEqual((self.stderr.getvalue(), self.status.failed), ("", False))

    def test_ends_the_process_when_the_server_cannot_start(self) -> None:
        """One line on standard error names the reason; the exit status is 1."""
        (self.data / "identity.json").write_text("{}")
        ended = self.assertRaises(SystemExit, self.service().startService)
        self.assertEqual(ended.code, 1)
        [line] = self.stderr.getvalue().splitlines()
        self.assertTrue(line.startswith(f"msmq cannot start: {self.data}/identity.json is damaged"), line)

    def late(self) -> tuple[TwistdService, LateServer]:
        server = LateServer(load(None, Overrides(data=os.fspath(self.data))), self.reactor)
        service = TwistdService(server, self.reactor, self.status, self.stderr, self.manager)
        service.startService()
        self.reactor.run()
        return service, server

    def test_stops_the_reactor_when_the_start_fails_late(self) -> None:
        """A store that takes its time to refuse ends the process in the same way."""
        _, server = self.late()
        self.assertFalse(self.status.failed)
        server.started.errback(StartError("the store is on fire"))
        self.assertEqual(self.stderr.getvalue(), "msmq cannot start: the store is on fire\n")
        self.assertTrue(self.status.failed)
        self.assertTrue(self.reactor.hasStopped)

    def test_another_server_takes_over_at_the_end(self) -> None:
        """A store that was taken over, which is noticed when the reactor stops already, is reported alone."""
        _, server = self.late()
        server.started.errback(StartError("the store is away"))
        unhandled: list[Failure] = []
        server.lost.addErrback(unhandled.append)
        server.lost.callback(StorageError("another queue manager has taken it over"))
        self.assertEqual(unhandled, [])
        self.assertEqual(
            self.stderr.getvalue().splitlines(),
            [
                "msmq cannot start: the store is away",
                "msmq ends, since another server is active: another queue manager has taken it over",
            ],
        )
        self.assertTrue(self.reactor.hasStopped)

    def test_a_surprise_is_logged_in_full(self) -> None:
        """An unexpected exception is logged with its traceback."""
        _, server = self.late()
        server.started.errback(ZeroDivisionError("surprise"))
        self.assertEqual(self.stderr.getvalue(), "msmq cannot start: surprise\n")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_reload_outside_its_time(self) -> None:
        """SIGHUP during the start, or after the stop, does not report the server as ready."""
        path = str(self.data / "notify")
        heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.addCleanup(heard.close)
        heard.bind(path)
        self.manager = ServiceManager.of({"NOTIFY_SOCKET": path}, self.reactor)
        service, server = self.late()
        os.kill(os.getpid(), signal.SIGHUP)
        self.reactor.advance(0)
        self.assertRaises(BlockingIOError, heard.recv, 4096)
        server.started.callback(None)
        self.assertTrue(heard.recv(4096).startswith(b"READY=1"))
        service.reload()
        self.assertTrue(heard.recv(4096).startswith(b"RELOADING=1"))
        self.assertTrue(heard.recv(4096).startswith(b"READY=1"))
        self.successResultOf(service.stopService())
        self.assertEqual(heard.recv(4096), b"STOPPING=1")
        service.reload()
        self.assertRaises(BlockingIOError, heard.recv, 4096)

    def test_reload_that_fails_unexpectedly(self) -> None:
        """The service manager hears of the end of every reload, and the log has what went wrong."""
        path = str(self.data / "notify")
        heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.addCleanup(heard.close)
        heard.bind(path)
        self.manager = ServiceManager.of({"NOTIFY_SOCKET": path}, self.reactor)

        def read() -> Configuration:
            raise FileNotFoundError(2, "No such file or directory")

        overrides = Overrides(data=os.fspath(self.data), storage="memory")
        server = LateServer(load(None, overrides), self.reactor, source=read)
        service = TwistdService(server, self.reactor, self.status, self.stderr, self.manager)
        service.startService()
        server.started.callback(None)
        heard.recv(4096)
        os.kill(os.getpid(), signal.SIGHUP)
        self.reactor.advance(0)
        self.assertTrue(heard.recv(4096).startswith(b"RELOADING=1"))
        self.assertIn(b"STATUS=not reloaded: FileNotFoundError", heard.recv(4096))
        self.assertEqual(len(self.flushLoggedErrors(FileNotFoundError)), 1)
        self.successResultOf(service.stopService())

    def test_a_stop_during_the_start_is_no_failure(self) -> None:
        """A signal while the store opens ends the process as a signal does."""
        service, _ = self.late()
        self.successResultOf(service.stopService())
        self.assertEqual((self.stderr.getvalue(), self.status.failed), ("", False))

    def test_a_data_directory_that_is_a_file(self) -> None:
        """A data directory that cannot be one is named."""
        self.data = self.data / "file"
        self.data.write_text("")
        self.assertRaises(SystemExit, self.service().startService)
        self.assertEqual(
            self.stderr.getvalue(),
            f"msmq cannot start: data directory {self.data}: there is a file of that name\n",
        )
        self.data = self.data.parent
