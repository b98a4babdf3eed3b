"""Wrong calls of the public interface: each is refused where it comes in, with the name of the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

import msmq
import msmq.client
import msmq.testing
from msmq import load
from msmq.errors import MsmqError

_CONFIGURATION = load(None, msmq.Overrides(name="ALPHA"), {})
_ANY: Any = msmq
_CLIENT: Any = msmq.client
_TESTING: Any = msmq.testing
_ENDPOINT = msmq.testing.Network(Clock()).host("10.0.0.1").client_endpoint("10.0.0.2", 1801)


WRONG: list[tuple[str, Callable[[], object]]] = [
    ("address is an int", lambda: _ANY.connect(5)),
    ("address is a bytes", lambda: _ANY.connect(b"BETA")),
    ("address is ''", lambda: msmq.connect("")),
    ("write DIRECT=TCP:127.0.0.1, or only 127.0.0.1", lambda: msmq.connect("TCP:127.0.0.1")),
    ("write DIRECT=os:BETA, or only BETA", lambda: msmq.connect("os:BETA")),
    ("body of a message is a str", lambda: _ANY.Message(body="text")),
    ("label of a message is a bytes", lambda: _ANY.Message(label=b"x")),
    ("time to be received -1", lambda: msmq.Message(time_to_be_received=-1)),
    ("time_to_be_received of a message is a float", lambda: _ANY.Message(time_to_be_received=1.5)),
    ("priority of a message is a str", lambda: _ANY.Message(priority="3")),
    ("priority", lambda: msmq.Message(priority=8)),
    ("admin_queue of a message is an int", lambda: _ANY.Message(admin_queue=5)),
    ("correlation", lambda: msmq.Message(correlation_id=b"short")),
    ("enterprise is a str", lambda: _ANY.find_directory_servers(enterprise="x")),
    ("site is a NoneType", lambda: _ANY.find_directory_servers(site=None)),
    ("address is an int", lambda: _ANY.find_directory_servers(address=5)),
    ("address 'fe80::1' is not an IPv4 address", lambda: msmq.find_directory_servers(address="fe80::1")),
    ("port is a str", lambda: _ANY.find_directory_servers(port="1801")),
    ("port 0", lambda: msmq.find_directory_servers(port=0)),
    ("reactor is an int", lambda: _ANY.find_directory_servers(reactor=5)),
    ("seconds is -1", lambda: msmq.later(-1)),
    ("seconds is '1'", lambda: _ANY.later("1")),
    ("message_class is an int", lambda: _ANY.reject(5)),
    ("reason is an int", lambda: _ANY.reject(reason=5)),
    ("configuration is a str", lambda: _ANY.Server("msmq.toml")),
    ("configuration is a NoneType", lambda: _ANY.Server(None)),
    ("reactor is an int", lambda: _ANY.Server(_CONFIGURATION, 5)),
    ("clock is a float", lambda: _ANY.Server(_CONFIGURATION, clock=1.5)),
    ("program cannot be used as an IServerProgram", lambda: _ANY.Server(_CONFIGURATION, program=5)),
    ("source is a str", lambda: _ANY.Server(_CONFIGURATION, source="msmq.toml")),
    ("gate cannot be used as an IGate", lambda: _ANY.Server(_CONFIGURATION, gate="10.0.0.1")),
    ("discovery is an object of str", lambda: _ANY.Server(_CONFIGURATION, discovery="on")),
    ("path is an int", lambda: _ANY.load(5)),
    ("path is a bytes", lambda: _ANY.load(b"msmq.toml")),
    ("overrides is a dict", lambda: _ANY.load(None, {"name": "ALPHA"})),
    ("name of overrides is an int", lambda: _ANY.load(None, _ANY.Overrides(name=5))),
    ("address of overrides is an int", lambda: _ANY.load(None, _ANY.Overrides(address=5))),
    ("identifier is 'x'", lambda: _ANY.SessionFactory("x")),
    ("packet is a str", lambda: _ANY.OutgoingPacket("x")),
    ("delay is -1", lambda: msmq.testing.Conditions(delay=-1)),
    ("delay is a str", lambda: _TESTING.Conditions(delay="1 s")),
    ("loss is 5", lambda: msmq.testing.Conditions(loss=5)),
    ("jitter is nan", lambda: msmq.testing.Conditions(jitter=float("nan"))),
    ("largest_chunk is 0", lambda: msmq.testing.Conditions(largest_chunk=0)),
    ("address of a host is an int", lambda: _TESTING.Network(None).host(5)),
    ("address of a host is 'alpha'", lambda: _TESTING.Network(None).host("alpha")),
    ("advance: seconds is -1", lambda: msmq.testing.ManualClock().advance(-1)),
    ("advance: seconds is nan", lambda: msmq.testing.ManualClock().advance(float("nan"))),
    ("advance: seconds is a str", lambda: _TESTING.ManualClock().advance("1")),
    ("advance_until: condition is an int", lambda: _TESTING.ManualClock().advance_until(5)),
    ("advance_until: within is -1", lambda: msmq.testing.ManualClock().advance_until(bool, -1)),
    ("awaitable is an int", lambda: _TESTING.ManualClock().run(5)),
    ("conditions is a str", lambda: _TESTING.MemoryEstate(conditions="slow")),
    ("seed is a str", lambda: _TESTING.MemoryEstate(seed="1")),
    ("name of a host is an int", lambda: _TESTING.MemoryEstate().add(5)),
    ("name of a host is '10.0.0.1'", lambda: msmq.testing.MemoryEstate().add("10.0.0.1")),
    ("name of a host is 'a.example.com'", lambda: msmq.testing.MemoryEstate().host("a.example.com")),
    ("'quota' is not an option", lambda: _TESTING.MemoryEstate().add("ALPHA", quota=5)),
    ("queues is 'orders', a str", lambda: msmq.testing.MemoryEstate().add("ALPHA", queues="orders")),
    ("store cannot be used as an IMessageStore", lambda: _TESTING.MemoryEstate().add("ALPHA", store=5)),
    ("broker is an int", lambda: _TESTING.MemoryEstate().add("ALPHA", broker=5)),
    ("session is a dict", lambda: _TESTING.MemoryEstate().add("ALPHA", session={})),
    ("server is an int", lambda: _CLIENT.Client(5)),
    ("server: '' has no path", lambda: msmq.client.Client("")),
    ("token_file is an int", lambda: _CLIENT.Client("ssl:beta:1", token_file=5)),
    ("reconnect is a str", lambda: _CLIENT.Client("x", reconnect="1")),
    ("reconnect is -1", lambda: msmq.client.Client("x", reconnect=-1)),
    ("reconnect is nan", lambda: msmq.client.AsyncioClient("x", reconnect=float("nan"))),
    ("server is a float", lambda: _CLIENT.DeferredClient(1.5)),
    ("path is an int", lambda: _CLIENT.Client("x").queue(5)),
    ("path is ''", lambda: msmq.client.Client("x").create_queue("")),
    ("destination is an int", lambda: _CLIENT.Client("x").send(5)),
    ("body is an int", lambda: _CLIENT.Client("x").send("orders", 5)),
    ("'colour' is not a property", lambda: _CLIENT.Client("x").send("orders", b"", colour="red")),
    ("messages is an int", lambda: _CLIENT.Client("x").send_all(5)),
    ("messages is a MessageToSend", lambda: _CLIENT.Client("x").send_all(msmq.client.message_to("orders"))),
    ("each has to be a MessageToSend", lambda: _CLIENT.Client("x").send_all([b"one"])),
    ("queue is a bytes", lambda: _CLIENT.Client("x").consume(b"orders")),
    ("count is 0", lambda: msmq.client.Client("x").consume("orders", count=0)),
    ("count is a str", lambda: _CLIENT.Client("x").consume("orders", count="5")),
    ("count is missing", lambda: msmq.client.Client("x").consume("orders", transactional=True)),
    ("timeout is -1", lambda: msmq.client.AsyncioClient("x").consume("orders", timeout=-1)),
    ("timeout is a str", lambda: _CLIENT.Client("x").peek("orders", timeout="1")),
    ("count is 0", lambda: msmq.client.Client("x").peek("orders", count=0)),
    ("queue is ''", lambda: msmq.client.Client("x").peek("")),
    ("limit is -5", lambda: msmq.client.Client("x").search("orders", limit=-5)),
    ("where is an int", lambda: _CLIENT.Client("x").search("orders", where=5)),
    ("queue_manager is a str", lambda: _ANY.MessageIdentifier("x", 5)),
    ("ordinal is a str", lambda: _ANY.MessageIdentifier(UUID(int=1), "5")),
    ("text is a bytes", lambda: _ANY.MessageIdentifier.parse(b"x")),
    ("is not an identifier of the form", lambda: msmq.MessageIdentifier.parse("x")),
    ("also is an int", lambda: _ANY.BodyDecoders(5)),
    ("also has an int without a name", lambda: _ANY.BodyDecoders([5])),
    ("also has a module without a name", lambda: _ANY.BodyDecoders([msmq])),
    ("limits is an int", lambda: _ANY.BodyDecoders(limits=5)),
    ("body is a bytes", lambda: _ANY.BodyDecoders().decode(b"<a/>")),
    ("data of body is a str", lambda: _ANY.BodyDecoders().decode(_ANY.Body("<a/>"))),
    ("script is an int", lambda: _TESTING.FaultInjectingDouble(5)),
    ("target is an int", lambda: _TESTING.RelayFactory(5, clock=None, listener=print)),
    ("listener is a NoneType", lambda: _TESTING.RelayFactory(_ENDPOINT, clock=None, listener=None)),
    (
        "most_sessions is 0",
        lambda: _TESTING.RelayFactory(_ENDPOINT, clock=None, listener=print, most_sessions=0),
    ),
    ("target is an int", lambda: _TESTING.RecordingProxy(5)),
    ("target is ''", lambda: _TESTING.RecordingProxy("")),
    ("address is 'here'", lambda: _TESTING.RecordingProxy("beta", address="here")),
    ("capture is an int", lambda: _TESTING.RecordingProxy("beta", capture=5)),
    ("capture_limit is 0", lambda: _TESTING.RecordingProxy("beta", capture_limit=0)),
]
"""What each refusal says, and the call."""


class WrongCallTests(SynchronousTestCase):
    """Calls that a program makes by mistake."""

    def test_each_is_refused_by_name(self) -> None:
        """An error of msmq names the argument and what it has to be; nothing is accepted silently."""
        for expected, call in WRONG:
            with self.subTest(expected=expected):
                error = self.assertRaises(MsmqError, call)
                self.assertIn(expected, str(error))
                self.assertNotIn("\n", str(error))
