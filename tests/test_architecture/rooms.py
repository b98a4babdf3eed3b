"""The tables: which room may import which, and what stays behind one door.

A new room of the package is a new row of L{ROOMS}.
"""

from __future__ import annotations

import attrs

FOUNDATION = (
    "argument_types",
    "errors",
    "line_limit",
    "moment",
    "quoting",
    "spelling",
    "token_bucket",
    "settings",
)
VALUES = (*FOUNDATION, "wire", "structures", "windows", "persistence")
MACHINES = (*VALUES, "machines")
BASICS = ("errors", "moment", "quoting", "wire", "structures")
CORES = ("queues", "session", "transfer", "membership", "discovery", "routing")
BELOW_INTERFACES = (*VALUES, *CORES)
BELOW_PROVIDERS = (*BELOW_INTERFACES, "interfaces")
PROVIDERS = ("storage", "directory", "security", "net")


@attrs.frozen
class Room:
    """One package (or module) directly below C{msmq}.

    @ivar level: its height; imports only ever lead down, or stay inside the room.
    @ivar may_import: the other rooms that it may import.
    @ivar pure: it may import, from outside, only what L{PURE_OUTSIDE} and L{IMPURE_STANDARD} leave it.
    """

    level: int
    may_import: tuple[str, ...]
    pure: bool = False


ROOMS = {
    "alarm_limits": Room(0, (), pure=True),
    "argument_types": Room(0, ("errors", "quoting"), pure=True),
    "background": Room(0, ()),
    "bounded_evaluation": Room(0, ("quoting",), pure=True),
    "errors": Room(0, (), pure=True),
    "direct_write": Room(0, ()),
    "durable": Room(0, ()),
    "machines": Room(0, (), pure=True),
    "lazy_imports": Room(0, ()),
    "line_limit": Room(0, ("moment", "token_bucket"), pure=True),
    "moment": Room(0, (), pure=True),
    "quantities": Room(0, (), pure=True),
    "quoting": Room(0, (), pure=True),
    "version": Room(0, ()),
    "settings": Room(0, (), pure=True),
    "spelling": Room(0, (), pure=True),
    "token_bucket": Room(0, ("moment",), pure=True),
    "wire": Room(0, ("errors", "moment", "quoting"), pure=True),
    "structures": Room(1, (*FOUNDATION, "wire"), pure=True),
    "windows": Room(1, (*FOUNDATION, "wire", "structures"), pure=True),
    "persistence": Room(1, (*FOUNDATION, "wire", "structures"), pure=True),
    "toml": Room(1, (*FOUNDATION, "quantities", "wire")),
    # The cores never import each other: they share values and are joined by manager.
    "queues": Room(2, MACHINES, pure=True),
    "session": Room(2, MACHINES, pure=True),
    "transfer": Room(2, VALUES, pure=True),
    "membership": Room(2, VALUES, pure=True),
    "discovery": Room(2, BASICS, pure=True),
    "routing": Room(2, BASICS, pure=True),
    "slots": Room(3, ()),
    "observed_events": Room(3, FOUNDATION),
    "deadline_timer": Room(3, (*FOUNDATION, "interfaces")),
    "decoding": Room(3, (*BELOW_INTERFACES, "interfaces"), pure=True),
    "interfaces": Room(3, (*BELOW_INTERFACES, "lazy_imports")),
    "plugins": Room(3, ("errors", "quoting")),
    "named_objects": Room(3, ("errors", "quoting")),
    # The core of the bridge: mappings, and what is in flight.
    "bridge": Room(4, (*VALUES, "interfaces", "decoding", "bounded_evaluation"), pure=True),
    # Providers meet each other, and their users, through interfaces.
    "storage": Room(4, (*BELOW_PROVIDERS, "plugins", "durable", "lazy_imports")),
    "directory": Room(4, (*BELOW_PROVIDERS, "plugins", "durable", "toml")),
    "security": Room(4, (*BELOW_PROVIDERS, "durable", "toml")),
    "net": Room(4, (*BELOW_PROVIDERS, "background", "deadline_timer", "direct_write")),
    "manager": Room(
        5, (*BELOW_PROVIDERS, "alarm_limits", "background", "deadline_timer", "decoding", "version")
    ),
    # These compose what lies below them.
    "control": Room(
        6,
        (
            *BELOW_PROVIDERS,
            "alarm_limits",
            "background",
            "bounded_evaluation",
            "decoding",
            "direct_write",
            "manager",
            "quantities",
            "version",
        ),
    ),
    "service": Room(
        6,
        (
            *BELOW_PROVIDERS,
            *PROVIDERS,
            "decoding",
            "manager",
            "control",
            "archive_service",
            "bridge_service",
            "shadow_service",
            "web",
            "named_objects",
            "plugins",
            "durable",
            "quantities",
            "toml",
            "version",
        ),
    ),
    "web": Room(
        6,
        (
            *BELOW_PROVIDERS,
            "alarm_limits",
            "decoding",
            "manager",
            "control",
            "quantities",
            "version",
        ),
    ),
    "pipeline": Room(
        6,
        (
            *BELOW_PROVIDERS,
            "decoding",
            "directory",
            "storage",
            "control",
            "durable",
            "lazy_imports",
            "quantities",
            "version",
        ),
    ),
    "cli": Room(
        6,
        (
            *BELOW_PROVIDERS,
            "alarm_limits",
            "decoding",
            "directory",
            "net",
            "control",
            "service",
            "bridge_program",
            "pipeline",
            "double",
            "quantities",
            "toml",
            "version",
        ),
    ),
    "broker": Room(6, (*BELOW_PROVIDERS, "net", "storage", "manager", "service", "slots")),
    "double": Room(
        6,
        (
            *BELOW_PROVIDERS,
            "decoding",
            "net",
            "storage",
            "manager",
            "service",
            "broker",
            "toml",
            "observed_events",
        ),
    ),
    "proxy": Room(6, (*BELOW_PROVIDERS, "decoding", "net", "service", "observed_events")),
    "sender": Room(6, (*BELOW_PROVIDERS, "net", "storage", "service", "slots")),
    "client": Room(6, (*BELOW_PROVIDERS, "control", "decoding", "lazy_imports", "version")),
    # Routes between queues and other brokers.
    "bridge_service": Room(
        6,
        (
            *BELOW_PROVIDERS,
            "background",
            "decoding",
            "bridge",
            "control",
            "client",
            "durable",
            "named_objects",
            "plugins",
            "toml",
        ),
    ),
    # Keeps the archive by a process of the pipeline, which it never imports.
    "archive_service": Room(6, BELOW_PROVIDERS),
    # The bridge as a process of its own.
    "bridge_program": Room(
        6, (*BELOW_PROVIDERS, "net", "control", "service", "bridge_service", "web", "toml", "version")
    ),
    # Copies for a second consumer.
    "shadow_service": Room(6, (*BELOW_PROVIDERS, "manager", "durable", "toml")),
    # The doors: what users import, and what their tests import.
    "msmq": Room(
        7,
        (
            *BELOW_PROVIDERS,
            *PROVIDERS,
            "decoding",
            "manager",
            "service",
            "broker",
            "sender",
            "lazy_imports",
            "version",
        ),
    ),
    "testing": Room(
        7,
        (
            *BELOW_PROVIDERS,
            *PROVIDERS,
            "lazy_imports",
            "decoding",
            "manager",
            "control",
            "service",
            "plugins",
            "broker",
            "double",
            "proxy",
            "msmq",
        ),
    ),
}
"""Every room by its name; C{msmq} is C{msmq/__init__.py} itself."""

SAME_LEVEL = {
    ("structures", "wire"),
    ("wire", "errors"),
    ("wire", "moment"),
    ("wire", "quoting"),
    ("argument_types", "errors"),
    ("argument_types", "quoting"),
    ("bounded_evaluation", "quoting"),
    ("token_bucket", "moment"),
    ("line_limit", "moment"),
    ("line_limit", "token_bucket"),
    ("windows", "structures"),
    ("persistence", "structures"),
    ("deadline_timer", "interfaces"),
    ("decoding", "interfaces"),
    ("service", "control"),
    ("service", "web"),
    ("service", "archive_service"),
    ("service", "bridge_service"),
    ("service", "shadow_service"),
    ("web", "control"),
    ("broker", "service"),
    ("double", "broker"),
    ("double", "service"),
    ("proxy", "service"),
    ("cli", "double"),
    ("sender", "service"),
    ("pipeline", "control"),
    ("cli", "control"),
    ("client", "control"),
    ("bridge_service", "control"),
    ("bridge_service", "client"),
    ("bridge_program", "bridge_service"),
    ("bridge_program", "control"),
    ("bridge_program", "service"),
    ("bridge_program", "web"),
    ("cli", "bridge_program"),
    ("cli", "service"),
    ("cli", "pipeline"),
    ("testing", "msmq"),
}
"""The few pairs of one level in which the first imports the second, and never the other way."""

PURE_OUTSIDE = {
    **{room: ("attrs", "automat") for room, row in ROOMS.items() if row.pure},
    # What decodes bodies stands behind an interface, since others may add to it.
    "decoding": ("attrs", "dpkt", "zope"),
    "bounded_evaluation": ("jmespath",),
    "bridge": ("attrs", "jmespath"),
}
"""What a pure room may import beside the standard library."""

IMPURE_STANDARD = frozenset(
    "asyncio concurrent glob http logging multiprocessing os pathlib queue random sched secrets"
    " select selectors shutil signal socket socketserver sqlite3 ssl subprocess tempfile threading"
    " time urllib".split()
)
"""What a pure room may not import from the standard library: clocks, chance, files, sockets, threads."""

ONLY_IN = {
    "pyspark": ("msmq.pipeline.spark",),
    "matplotlib": ("msmq.pipeline.reports",),
    "dpkt": ("msmq.decoding", "msmq.proxy"),
    "sqlite3": ("msmq.storage",),
    "psycopg": ("msmq.storage",),
    "ldaptor": ("msmq.directory",),
    "gssapi": ("msmq.directory.ldap.transport.kerberos",),
    "cryptography": ("msmq.security",),
    "OpenSSL": ("msmq.security",),
    "Crypto": ("msmq.security",),
    "klein": ("msmq.control", "msmq.web.console"),
    "jinja2": ("msmq.web.console",),
    "click": ("msmq.cli",),
    "opentelemetry": ("msmq.client.tracing",),
    "prometheus_client": ("msmq.web",),
    "pytest": ("msmq.testing.pytest_fixtures",),
    "confluent_kafka": ("msmq.bridge_service.kafka",),
    "pika": ("msmq.bridge_service.rabbitmq",),
    "proton": ("msmq.bridge_service.amqp10",),
    "rich": ("msmq.cli.watch.screen",),
    "textual": ("msmq.cli.watch.screen",),
}
"""The packages from outside that stay behind one door, and that door."""

FORBIDDEN_EVERYWHERE = ("dataclasses", "twisted.internet.defer.inlineCallbacks", "hypothesis", "tests")
"""What nothing in C{msmq} imports: attrs is the one idiom for values, coroutines the one for waiting."""

IMPORT_CIRCLES: frozenset[frozenset[str]] = frozenset()
"""Modules that may import each other in a circle, types included: none."""


def room_of(name: str) -> str:
    """The room of a dotted name below C{msmq}; C{msmq} for the package's own names."""
    parts = [*name.split("."), ""]
    return parts[1] if parts[1] in ROOMS else "msmq"


def is_within(name: str, package: str) -> bool:
    """Whether C{name} is C{package} or something inside it."""
    return name == package or name.startswith(package + ".")
