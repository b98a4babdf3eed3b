"""RabbitMQ nodes of the benchmark's own on loopback, and pika as publisher and consumer.

The node is Debian's package C{rabbitmq-server}, started with its own epmd, ports and data directory, as
the user C{rabbitmq} where the benchmark itself runs as root.
Messages go to one durable queue, each with a publisher confirm; the consumer acknowledges what it took.
A second node can pass on what is published there by a shovel, with ack-mode on-confirm: a message leaves it
when the first node has confirmed it, which is what a queue manager does with an outgoing queue.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from rig.flights import Tally, body_of, say

BINARIES: Final = Path("/usr/lib/rabbitmq/bin")
USER: Final = "rabbitmq"
QUEUE: Final = "orders"
OUTGOING: Final = "outgoing"
"""The queue of a node with a shovel."""
READY: Final = 60.0
"""Seconds that the node gets to start."""
STOPPED: Final = 20.0
"""Seconds that it gets to stop by itself."""
ACKNOWLEDGED_TOGETHER: Final = 50
"""Messages that one acknowledgement of the consumer is for, where as many are outstanding."""
PREFETCHED: Final = 1000
"""Prefetch limit of the consumer, in messages."""
QUEUE_TYPES: Final = ("classic", "quorum")


def missing() -> str:
    """Why RabbitMQ cannot take part; empty if it can."""
    if not (BINARIES / "rabbitmq-server").exists():
        return "the package rabbitmq-server is not installed"
    if shutil.which("epmd") is None:
        return "there is no epmd, which the package erlang-base has"
    if importlib.util.find_spec("pika") is None:
        return "pika is not installed; the extra msmq[bench] has it"
    return ""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


_SHOVEL: Final = """,{rabbitmq_shovel,[{shovels,[{bench,[
 {source,[{protocol,amqp091},{uris,["amqp://127.0.0.1:%(port)d"]},
  {declarations,[{'queue.declare',[{queue,<<"outgoing">>},durable]}]},
  {queue,<<"outgoing">>},{prefetch_count,1000}]},
 {destination,[{protocol,amqp091},{uris,["amqp://127.0.0.1:%(to)d"]},
  {declarations,[]},{publish_properties,[]},
  {publish_fields,[{exchange,<<"">>},{routing_key,<<"orders">>}]}]},
 {ack_mode,on_confirm},{reconnect_delay,1}]}]}]}"""


class Node:
    """One node; C{with Node() as node} runs it.

    @param shovel_to: the port of the node to whose queue it passes on what is in its queue C{outgoing}.
    """

    def __init__(self, shovel_to: int | None = None) -> None:
        self.port = _free_port()
        self._shovel_to = shovel_to
        self._directory = tempfile.mkdtemp(prefix="msmq-bench-rabbitmq-")
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def processes(self) -> list[int]:
        """The process groups of the node and of its epmd."""
        return [process.pid for process in self._processes]

    def _start(self) -> None:
        directory = Path(self._directory)
        (directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nloopback_users.guest = true\nlog.file.level = error\n",
            encoding="ascii",
        )
        plugins = shovel = ""
        if self._shovel_to is not None:
            plugins, shovel = "rabbitmq_shovel", _SHOVEL % {"port": self.port, "to": self._shovel_to}
        (directory / "advanced.config").write_text(
            "[{kernel,[{inet_dist_use_interface,{127,0,0,1}}]}" + shovel + "].\n", encoding="ascii"
        )
        (directory / "enabled_plugins").write_text(f"[{plugins}].\n", encoding="ascii")
        if os.geteuid() == 0:
            for path in (directory, *directory.iterdir()):
                shutil.chown(path, USER, USER)
        mapper = str(_free_port())
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": self._directory,
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": mapper,
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_NODENAME": "msmq-bench@localhost",
            "RABBITMQ_DIST_PORT": str(_free_port()),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -kernel inet_dist_use_interface {127,0,0,1}",
        }
        self._spawn([str(shutil.which("epmd")), "-address", "127.0.0.1", "-port", mapper], environment)
        self._spawn([str(BINARIES / "rabbitmq-server")], environment)
        deadline = time.monotonic() + READY
        while not self._answers():
            if self._processes[-1].poll() is not None or time.monotonic() > deadline:
                output = (directory / "output").read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"the RabbitMQ node did not start:\n{output}")
            time.sleep(0.1)

    def _spawn(self, command: list[str], environment: dict[str, str]) -> None:
        user: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = {"user": USER, "group": USER, "extra_groups": []}
        with (Path(self._directory) / "output").open("ab") as output:
            self._processes.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    cwd=self._directory,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    **user,
                )
            )

    def _answers(self) -> bool:
        import pika

        try:
            pika.BlockingConnection(_parameters(self.port)).close()
        except (pika.exceptions.AMQPError, OSError):
            return False
        return True

    def stop(self) -> None:
        """End the node and its epmd, and remove the data."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(STOPPED)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._processes.clear()
        shutil.rmtree(self._directory, ignore_errors=True)


def _parameters(port: int) -> Any:
    import pika

    return pika.ConnectionParameters("127.0.0.1", port, heartbeat=0, socket_timeout=5)


class _Publisher:
    """Keeps so many messages unconfirmed until all are confirmed."""

    def __init__(
        self, port: int, queue: str, count: int, size: int, outstanding: int, persistent: bool
    ) -> None:
        import pika

        self._queue = queue
        self._left = self._unconfirmed = count
        self._size = size
        self._outstanding = outstanding
        self._properties = pika.BasicProperties(delivery_mode=2 if persistent else 1)
        self._published = 0
        self._lowest = 1
        self._confirmed: set[int] = set()
        self.started = 0.0
        self._connection = pika.SelectConnection(_parameters(port), on_open_callback=self._opened)

    def run(self) -> None:
        self._connection.ioloop.start()

    def _opened(self, connection: Any) -> None:
        self._channel = connection.channel(on_open_callback=self._ready)

    def _ready(self, channel: Any) -> None:
        channel.confirm_delivery(self._answered, callback=self._selected)

    def _selected(self, frame: Any) -> None:
        self.started = time.monotonic()
        self._publish(self._outstanding)

    def _publish(self, count: int) -> None:
        for _ in range(min(count, self._left)):
            self._left -= 1
            self._channel.basic_publish("", self._queue, body_of(self._size), self._properties)

    def _answered(self, frame: Any) -> None:
        method = frame.method
        if method.NAME != "Basic.Ack":
            raise RuntimeError("the node refused a message")
        tag = method.delivery_tag
        before = self._unconfirmed
        if method.multiple:
            self._unconfirmed -= tag - self._lowest + 1
            for other in [other for other in self._confirmed if other <= tag]:
                self._confirmed.discard(other)
                self._unconfirmed += 1
            self._lowest = max(self._lowest, tag + 1)
        else:
            self._unconfirmed -= 1
            self._confirmed.add(tag)
        while self._lowest in self._confirmed:
            self._confirmed.discard(self._lowest)
            self._lowest += 1
        if self._unconfirmed:
            self._publish(before - self._unconfirmed)
        else:
            self._connection.ioloop.stop()


def publish(port: int, queue: str, count: int, size: int, outstanding: int, persistent: bool) -> None:
    """Run the publishing process."""
    publisher = _Publisher(port, queue, count, size, outstanding, persistent)
    used = time.process_time()
    publisher.run()
    say(started=publisher.started, ended=time.monotonic(), cpu=time.process_time() - used)


class _Consumer:
    def __init__(self, port: int, count: int, outstanding: int, queue_type: str) -> None:
        import pika

        self._left = count
        self._together = min(outstanding, ACKNOWLEDGED_TOGETHER)
        self._queue_type = queue_type
        self.tally = Tally()
        self._connection = pika.SelectConnection(_parameters(port), on_open_callback=self._opened)

    def run(self) -> None:
        self._connection.ioloop.start()

    def _opened(self, connection: Any) -> None:
        self._channel = connection.channel(on_open_callback=self._ready)

    def _ready(self, channel: Any) -> None:
        channel.queue_delete(QUEUE)
        channel.queue_declare(
            QUEUE, durable=True, arguments={"x-queue-type": self._queue_type}, callback=self._declared
        )

    def _declared(self, frame: Any) -> None:
        self._channel.basic_qos(prefetch_count=PREFETCHED, callback=self._limited)

    def _limited(self, frame: Any) -> None:
        self._channel.basic_consume(QUEUE, self._delivered, callback=lambda frame: say(ready=True))

    def _delivered(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.tally.arrived(body)
        self._left -= 1
        if not self._left or method.delivery_tag % self._together == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if not self._left:
            self._connection.add_on_close_callback(lambda connection, reason: connection.ioloop.stop())
            # Closing is answered behind the acknowledgement, so that the node has taken that.
            self._connection.close()


def consume(port: int, count: int, outstanding: int, queue_type: str) -> None:
    """Run the consuming process."""
    consumer = _Consumer(port, count, outstanding, queue_type)
    used = time.process_time()
    consumer.run()
    say(ended=time.monotonic(), cpu=time.process_time() - used, **consumer.tally.figures())


def main(arguments: list[str]) -> int:
    """Be one of the two processes."""
    match arguments:
        case ["publish", port, queue, count, size, outstanding, delivery]:
            publish(int(port), queue, int(count), int(size), int(outstanding), delivery != "transient")
        case ["consume", port, count, outstanding, queue_type]:
            consume(int(port), int(count), int(outstanding), queue_type)
        case _:
            sys.stderr.write(
                "usage: rabbitmq.py publish PORT QUEUE COUNT SIZE OUTSTANDING persistent|transient"
                " | consume PORT COUNT OUTSTANDING classic|quorum\n"
            )
            return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
