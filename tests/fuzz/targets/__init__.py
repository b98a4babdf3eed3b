"""The targets: each takes any bytes, and raises only where a promise does not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.fuzz.targets.bodies import bodies
from tests.fuzz.targets.captures import captures
from tests.fuzz.targets.certificates import certificates
from tests.fuzz.targets.control_requests import control_requests
from tests.fuzz.targets.datagrams import datagrams
from tests.fuzz.targets.descriptors import descriptors
from tests.fuzz.targets.directory import directory
from tests.fuzz.targets.internal_packets import internal_packets
from tests.fuzz.targets.ldap_answers import ldap_answers
from tests.fuzz.targets.names import names
from tests.fuzz.targets.queue_managers import queue_managers
from tests.fuzz.targets.sessions import sessions
from tests.fuzz.targets.stream import stream
from tests.fuzz.targets.user_messages import user_messages

TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "stream": stream,
    "user_messages": user_messages,
    "internal_packets": internal_packets,
    "datagrams": datagrams,
    "names": names,
    "directory": directory,
    "ldap_answers": ldap_answers,
    "descriptors": descriptors,
    "certificates": certificates,
    "sessions": sessions,
    "captures": captures,
    "bodies": bodies,
    "queue_managers": queue_managers,
    "control_requests": control_requests,
}
