"""Test doubles for programs that build on msmq: clock, network, queue managers, receiver with faults.

L{msmq.testing.contracts} has the contract tests of stores, directories, routers and access controls, and
L{msmq.testing.pytest_fixtures} fixtures for pytest.
The names are imported lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmq.lazy_imports import lazy_attributes

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

_MODULES: Final = {
    "msmq.directory.memory": ("MemoryDirectory",),
    "msmq.double.double": ("FaultInjectingDouble",),
    "msmq.double.events": ("DoubleEvent",),
    "msmq.double.script": ("DoubleScript", "Fault", "FaultAction", "MessageKind", "PeerAnswer", "PeerRule"),
    "msmq.double.script_file": ("ScriptError", "parse_script", "read_script"),
    "msmq.proxy.recording_proxy": ("RecordingProxy",),
    "msmq.proxy.relay": ("RelayFactory",),
    "msmq.proxy.relayed_packet": ("RelayedPacket",),
    "msmq.storage.memory": ("MemoryMessageStore",),
    "msmq.testing.access_control": ("MemoryAccessControl",),
    "msmq.testing.ciphers": ("MemoryCiphers",),
    "msmq.testing.clock": ("ManualClock",),
    "msmq.testing.memory_estate": ("MemoryEstate",),
    "msmq.testing.memory_queue_manager": ("ManagerOptions", "MemoryQueueManager"),
    "msmq.testing.network": ("MemoryHost", "Network"),
    "msmq.testing.packets": ("message_packet", "message_view"),
    "msmq.testing.reactor_thread": ("ReactorThread",),
    "msmq.testing.services": ("BlockingDouble", "BlockingProxy", "start_service"),
    "msmq.testing.streams": ("Conditions",),
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
