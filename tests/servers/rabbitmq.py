"""A RabbitMQ node of our own on loopback, with an epmd, ports, a data directory and a node name of its own.

It belongs to a user without rights and ends with the process that started it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

from twisted.trial.unittest import SkipTest

from tests.patience import DEADLINE
from tests.servers.certificates import Credentials, make_credentials

LARGEST_MESSAGE: Final = 1_000_000
"""C{max_message_size} of the node, in bytes."""

PLUGINS: Final = "[rabbitmq_amqp1_0,rabbitmq_auth_mechanism_ssl].\n"
USER: Final = "bridge"
PASSWORD: Final = "correct-horse"
ADDRESS: Final = "127.0.0.1"

_BINARIES: Final = Path("/usr/lib/rabbitmq/bin")
_ACCOUNT: Final = "rabbitmq"
_LOOPBACK: Final = (
    "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +SDcpu 1:1 +SDio 1"
    " +sbwt none +sbwtdcpu none +sbwtdio none"
)
"""Options of each Erlang: loopback alone, and one scheduler of each kind, which sleeps while it is idle."""

# In Erlang's syntax: for rabbitmq.conf each start of a node reads the schemas of all plugins.
_CONFIGURATION: Final = """\
[{{kernel, [{{inet_dist_use_interface, {{127,0,0,1}}}}]}},
 {{rabbit, [
  {{tcp_listeners, [{{"{address}", {port}}}]}},
  {{ssl_listeners, [{{"{address}", {tls_port}}}]}},
  {{ssl_options, [
   {{cacertfile, "{directory}/ca.pem"}},
   {{certfile, "{directory}/server.pem"}},
   {{keyfile, "{directory}/server.key"}},
   {{verify, verify_peer}},
   {{fail_if_no_peer_cert, false}}]}},
  {{auth_mechanisms, ['PLAIN', 'AMQPLAIN', 'EXTERNAL']}},
  {{ssl_cert_login_from, common_name}},
  {{default_user, <<"{user}">>}},
  {{default_pass, <<"{password}">>}},
  {{max_message_size, {largest}}},
  {{disk_free_limit, 1000000}},
  {{log, [{{file, [{{level, error}}]}}]}}]}}].
"""


def free_port() -> int:
    """A free port of loopback."""
    with socket.create_server((ADDRESS, 0)) as listener:
        return int(listener.getsockname()[1])


class RabbitServer:
    """One node, with the plugin for AMQP 1.0.

    @ivar port: of AMQP; C{tls_port}: of AMQP over TLS, with L{credentials}.
    """

    def __init__(self) -> None:
        for program in (_BINARIES / "rabbitmq-server", _BINARIES / "rabbitmqctl"):
            if not program.exists():
                raise SkipTest("RabbitMQ is not installed (Debian's package rabbitmq-server)")
        epmd = shutil.which("epmd")
        if epmd is None:
            raise SkipTest("epmd is not installed (Debian's package erlang-base)")
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-rabbitmq-", dir="/tmp"))
        atexit.register(self.remove)
        self.credentials: Credentials = make_credentials()
        self.port, self.tls_port = free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._write_files()
        mapper, distribution = str(free_port()), str(free_port())
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.directory),
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": ADDRESS,
            "ERL_EPMD_PORT": mapper,
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_NODENAME": f"msmq-test-{os.getpid()}@localhost",
            "RABBITMQ_DIST_PORT": distribution,
            "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.directory / "log"),
            "RABBITMQ_PID_FILE": str(self.directory / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-noinput {_LOOPBACK}",
            "RABBITMQ_CTL_ERL_ARGS": _LOOPBACK,
        }
        self._spawn(epmd, "-address", ADDRESS, "-port", mapper)
        self.start()

    def _write_files(self) -> None:
        directory = self.directory
        for name, content in (
            ("ca.pem", self.credentials.authority),
            ("server.pem", self.credentials.certificate),
            ("server.key", self.credentials.key),
        ):
            (directory / name).write_bytes(content)
        configuration = _CONFIGURATION.format(
            address=ADDRESS,
            port=self.port,
            tls_port=self.tls_port,
            directory=directory,
            user=USER,
            password=PASSWORD,
            largest=LARGEST_MESSAGE,
        )
        (directory / "rabbitmq.config").write_text(configuration, encoding="ascii")
        (directory / "enabled_plugins").write_text(PLUGINS, encoding="ascii")
        if os.geteuid() == 0:
            for path in (directory, *directory.iterdir()):
                shutil.chown(path, _ACCOUNT, _ACCOUNT)

    def start(self) -> None:
        """Start the node, and wait until it accepts connections."""
        node = self._spawn(str(_BINARIES / "rabbitmq-server"))
        give_up = time.monotonic() + DEADLINE
        while not self._accepts():
            if node.poll() is not None or time.monotonic() > give_up:
                raise AssertionError(f"RabbitMQ does not start: {self._output()[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End the node with SIGKILL."""
        node = self._processes.pop()
        os.killpg(node.pid, signal.SIGKILL)
        node.wait(DEADLINE)

    def control(self, *arguments: str) -> str:
        """Run C{rabbitmqctl}; its output."""
        done = subprocess.run(
            [*_prefix(), str(_BINARIES / "rabbitmqctl"), "-q", *arguments],
            env=self.environment,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        if done.returncode:
            raise AssertionError(f"rabbitmqctl {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def remove(self) -> None:
        """End the node and its epmd, and remove the directory."""
        while self._processes:
            process = self._processes.pop()
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait(DEADLINE)
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.remove)

    @property
    def parameters(self) -> Any:
        """The parameters of a client of pika."""
        import pika

        return pika.ConnectionParameters(
            ADDRESS, self.port, credentials=pika.PlainCredentials(USER, PASSWORD), heartbeat=0
        )

    def _spawn(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.directory / "output").open("ab") as output:
            process = subprocess.Popen(
                [*_prefix(), *command],
                env=self.environment,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def _accepts(self) -> bool:
        """Whether it answers to AMQP: a wrong protocol header is answered with the right one."""
        try:
            with socket.create_connection((ADDRESS, self.port), 5) as client:
                client.sendall(b"AMQP\0\0\0\0")
                return client.recv(4) == b"AMQP"
        except OSError:
            return False

    def _output(self) -> str:
        return (self.directory / "output").read_text(encoding="utf-8", errors="replace")


def _prefix() -> list[str]:
    """Run as the user of RabbitMQ, and end with the process that started it."""
    group = ["--reuid", _ACCOUNT, "--regid", _ACCOUNT, "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *group, "--pdeathsig=KILL"]


@cache
def shared_broker() -> RabbitServer:
    """One node for all tests of the process that leave it running; each takes queues of its own.

    @raise SkipTest: RabbitMQ is not installed.
    """
    return RabbitServer()
