"""Test doubles for programs that build on msmq: clock, network, queue managers, receiver with faults.

L{msmq.testing.contracts} has the contract tests of stores, directories, routers and access controls, and
L{msmq.testing.pytest_fixtures} fixtures for pytest.
The names are imported lazily.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msmq.directory.memory import MemoryDirectory
    from msmq.double.double import FaultInjectingDouble
    from msmq.double.events import DoubleEvent
    from msmq.double.script import DoubleScript, Fault, FaultAction, MessageKind, PeerAnswer, PeerRule
    from msmq.double.script_file import ScriptError, parse_script, read_script
    from msmq.proxy.recording_proxy import RecordingProxy
    from msmq.proxy.relay import RelayFactory
    from msmq.proxy.relayed_packet import RelayedPacket
    from msmq.storage.memory import MemoryMessageStore
    from msmq.testing.access_control import MemoryAccessControl
    from msmq.testing.ciphers import MemoryCiphers
    from msmq.testing.clock import ManualClock
    from msmq.testing.memory_estate import MemoryEstate
    from msmq.testing.memory_queue_manager import ManagerOptions, MemoryQueueManager
    from msmq.testing.network import MemoryHost, Network
    from msmq.testing.packets import message_packet, message_view
    from msmq.testing.reactor_thread import ReactorThread
    from msmq.testing.services import BlockingDouble, BlockingProxy, start_service
    from msmq.testing.streams import Conditions

_HOMES = {
    "BlockingDouble": "msmq.testing.services",
    "BlockingProxy": "msmq.testing.services",
    "DoubleEvent": "msmq.double.events",
    "DoubleScript": "msmq.double.script",
    "Fault": "msmq.double.script",
    "FaultAction": "msmq.double.script",
    "FaultInjectingDouble": "msmq.double.double",
    "MessageKind": "msmq.double.script",
    "PeerAnswer": "msmq.double.script",
    "PeerRule": "msmq.double.script",
    "RecordingProxy": "msmq.proxy.recording_proxy",
    "RelayFactory": "msmq.proxy.relay",
    "RelayedPacket": "msmq.proxy.relayed_packet",
    "ScriptError": "msmq.double.script_file",
    "parse_script": "msmq.double.script_file",
    "read_script": "msmq.double.script_file",
    "Conditions": "msmq.testing.streams",
    "ManualClock": "msmq.testing.clock",
    "MemoryAccessControl": "msmq.testing.access_control",
    "MemoryDirectory": "msmq.directory.memory",
    "MemoryEstate": "msmq.testing.memory_estate",
    "MemoryHost": "msmq.testing.network",
    "MemoryMessageStore": "msmq.storage.memory",
    "MemoryQueueManager": "msmq.testing.memory_queue_manager",
    "ManagerOptions": "msmq.testing.memory_queue_manager",
    "Network": "msmq.testing.network",
    "MemoryCiphers": "msmq.testing.ciphers",
    "ReactorThread": "msmq.testing.reactor_thread",
    "message_packet": "msmq.testing.packets",
    "message_view": "msmq.testing.packets",
    "start_service": "msmq.testing.services",
}

__all__ = [
    "BlockingDouble",
    "BlockingProxy",
    "Conditions",
    "DoubleEvent",
    "DoubleScript",
    "Fault",
    "FaultAction",
    "FaultInjectingDouble",
    "ManagerOptions",
    "ManualClock",
    "MemoryAccessControl",
    "MemoryCiphers",
    "MemoryDirectory",
    "MemoryEstate",
    "MemoryHost",
    "MemoryMessageStore",
    "MemoryQueueManager",
    "MessageKind",
    "Network",
    "PeerAnswer",
    "PeerRule",
    "ReactorThread",
    "RecordingProxy",
    "RelayFactory",
    "RelayedPacket",
    "ScriptError",
    "message_packet",
    "message_view",
    "parse_script",
    "read_script",
    "start_service",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
