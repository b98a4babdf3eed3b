"""The tables C{[[bridge]]} of a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import attrs
from zope.interface import Interface

from msmq.bridge.body_decoding import BodyDecoding
from msmq.bridge.expressions import MessageExpression
from msmq.bridge.inward import SETTABLE
from msmq.bridge.outward import HEADER
from msmq.bridge.rules import HOP_LIMIT, InwardRules, OutwardRules
from msmq.bridge_service.addresses import parse_node
from msmq.bridge_service.families import FAMILIES, FORMS, family_of
from msmq.bridge_service.family import BrokerEnd, BrokerFamily, RouteKeyError
from msmq.bridge_service.mapping_class import MappingClass
from msmq.bridge_service.settings import CLAIM_LIFETIME, DEAD_LETTERS, InwardSettings, OutwardSettings
from msmq.decoding.bodies.decoder_choice import BodyDecoders
from msmq.interfaces.bridge_mapping import IInwardMapping, IOutwardMapping
from msmq.interfaces.decoding import IBodyDecoder
from msmq.plugins import plugins
from msmq.quoting import quoted
from msmq.toml.document import nearest
from msmq.toml.lines import Path as KeyPath
from msmq.toml.value_kinds import (
    Array,
    Seconds,
    Size,
    Text,
    ValueKind,
    WholeNumber,
    WholeSeconds,
    type_name,
    wrong_type,
)

LARGEST_NUMBER: Final = 64
"""Limit on routes of a configuration."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _name(text: str) -> None:
    if _NAME.fullmatch(text) is None:
        raise ValueError(f"must be letters, digits, '.', '-' and '_', at most 64, not {quoted(text)}")


def _end(text: str) -> None:
    family = family_of(text)
    if family is not None:
        family.parse(text)
    elif "://" in text or ("\\" not in text and "=" not in text):
        raise ValueError(f"must be a queue (.\\private$\\NAME or a format name), or one of {FORMS}")


def _file(text: str) -> None:
    if not text or "\0" in text:
        raise ValueError("must be the path of a file")


def _directory(text: str) -> None:
    if not text or "\0" in text:
        raise ValueError("must be the path of a directory")


@cache
def _decoders() -> BodyDecoders:
    return BodyDecoders(plugins(IBodyDecoder))


def _decoder(text: str) -> None:
    names = _decoders().names
    if text not in names:
        raise ValueError(f"must be {', '.join(names)}, not {quoted(text)}{nearest(text, names)}")


def _text(text: str) -> None:
    if not text or len(text) > 255:
        raise ValueError("must have 1 to 255 characters")


def _one_of(*texts: str) -> Text:
    def accept(text: str) -> None:
        if text not in texts:
            raise ValueError(f"must be {' or '.join(texts)}, not {quoted(text)}")

    return Text(accept, " or ".join(texts))


@attrs.frozen
class _Texts:
    """A table of texts."""

    range_text: str
    type_name: str = "a table"

    def read(self, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise wrong_type(self.type_name, value)
        for name, text in value.items():
            if not isinstance(text, str):
                raise ValueError(f"of {quoted(name)} must be text, not {type_name(text)}")
        return dict(value)


@attrs.frozen
class RouteKey:
    """One key of a route; as a key of another table."""

    kind: ValueKind
    default: object = None
    unit: str = ""


KEYS: Final[Mapping[str, RouteKey]] = {
    "name": RouteKey(Text(_name, "letters, digits, . - _")),
    "from": RouteKey(Text(_end, "a queue, or the address of a broker")),
    "to": RouteKey(Text(_end, "a queue, or the address of a broker")),
    "delivery": RouteKey(_one_of("express", "recoverable", "transactional"), "recoverable"),
    "routing_key": RouteKey(Text(MessageExpression.parse, "JMESPath")),
    "properties": RouteKey(_Texts("property = JMESPath")),
    "decode": RouteKey(Text(_decoder, "auto, or the name of a format")),
    "mapping": RouteKey(Text(_text, "MODULE:CLASS")),
    "limit": RouteKey(Size(0, 0x40000000), 0x3F0000, "bytes"),
    "claim_check": RouteKey(Text(_directory, "a directory")),
    "claim_lifetime": RouteKey(WholeSeconds(60, 31_536_000), int(CLAIM_LIFETIME), "seconds"),
    "on_failure": RouteKey(_one_of("dead-letter", "stop"), "dead-letter"),
    "dead_letters": RouteKey(Text(_text, "a queue of the source")),
    "window": RouteKey(WholeNumber(1, 10_000), 256, "messages"),
    "hops": RouteKey(WholeNumber(1, 1000), HOP_LIMIT, "routes"),
    "replies": RouteKey(_Texts("response queue = queue of the broker")),
    "reply_queue": RouteKey(Text(_text, "a format name")),
    "answers": RouteKey(Text(_name, "the name of a route")),
    "nodes": RouteKey(Array(Text(parse_node, "HOST:PORT"), "HOST:PORT"), ()),
    "user": RouteKey(Text(_text, "a user of the broker")),
    "password_file": RouteKey(Text(_file, "a file")),
    "ca_file": RouteKey(Text(_file, "a file")),
    "certificate_file": RouteKey(Text(_file, "a file")),
    "heartbeat": RouteKey(WholeSeconds(1, 3600), 60, "seconds"),
    "retry": RouteKey(Seconds(0.1, 3600), 1.0, "seconds"),
    "retry_maximum": RouteKey(Seconds(0.1, 3600), 60.0, "seconds"),
}
"""The keys of a route."""

_OUTWARD: Final = frozenset({"routing_key", "answers"})
_INWARD: Final = frozenset({"delivery", "reply_queue"})
"""Keys of routes in one direction alone."""


@attrs.define
class RouteTables:
    """Reads the tables, and collects everything that is wrong.

    @ivar origin: the name of the queue manager in trails; routes of different bridges must differ in it.
    @ivar refuse: called with the key and the problem.
    """

    origin: str
    refuse: Callable[[KeyPath, str], None]
    _found: dict[str, OutwardSettings | InwardSettings] = attrs.field(factory=dict, init=False)
    _indices: dict[str, int] = attrs.field(factory=dict, init=False)

    def read(self, entries: object) -> tuple[OutwardSettings | InwardSettings, ...]:
        """Read the value of the key C{bridge}."""
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            self.refuse(("bridge",), "must be tables, each with the header [[bridge]]")
            return ()
        if len(entries) > LARGEST_NUMBER:
            self.refuse(("bridge",), f"has {len(entries)} routes; the limit is {LARGEST_NUMBER}")
            return ()
        for index, entry in enumerate(entries):
            self._read_route(index, entry)
        # A route with a problem of its own is not found, and what answers it has none.
        named = {entry["name"] for entry in entries if isinstance(entry.get("name"), str)}
        for route in self._found.values():
            if isinstance(route, OutwardSettings) and route.answers:
                answered = self._found.get(route.answers)
                if answered is None and route.answers in named:
                    continue
                if not isinstance(answered, InwardSettings) or not answered.rules.reply_queue:
                    self.refuse(
                        ("bridge", self._indices[route.name], "answers"),
                        f"names {quoted(route.answers)}, which is not a route from a broker with reply_queue",
                    )
        return tuple(self._found.values())

    def _read_route(self, index: int, entry: Mapping[str, object]) -> None:
        path: KeyPath = ("bridge", index)
        values: dict[str, Any] = {key: known.default for key, known in KEYS.items()}
        problems = 0
        for key, value in entry.items():
            known = KEYS.get(key)
            try:
                if known is None:
                    raise ValueError(f"is not a key of [[bridge]]{nearest(key, KEYS)}")
                values[key] = known.kind.read(value)
            except ValueError as error:
                problems += 1
                self.refuse((*path, key), str(error))
        for key in ("name", "from", "to"):
            if key not in entry:
                problems += 1
                self.refuse(path, f"has no {key}")
        if problems:
            return
        try:
            route = _Reader(self.origin, values, frozenset(entry)).route()
        except RouteKeyError as error:
            self.refuse((*path, error.key), str(error))
            return
        if route.name in self._found:
            self.refuse((*path, "name"), f"is {quoted(route.name)}, as another route has it")
            return
        self._found[route.name] = route
        self._indices[route.name] = index


@attrs.frozen
class _Reader:
    origin: str
    values: Mapping[str, Any]
    given: frozenset[str]

    def route(self) -> OutwardSettings | InwardSettings:
        source, destination = family_of(self.values["from"]), family_of(self.values["to"])
        if (source is None) == (destination is None):
            raise RouteKeyError("to", "and from must be a queue and a broker, in either order")
        is_outward = destination is not None
        for key in sorted(self.given & (_INWARD if is_outward else _OUTWARD)):
            direction = "from a broker" if is_outward else "to a broker"
            raise RouteKeyError(key, f"is a key of routes {direction}")
        family = destination or source
        assert family is not None
        for other in FAMILIES:
            for key in sorted(self.given & (other.keys - family.keys)):
                raise RouteKeyError(key, f"is a key of routes of {other.name}")
        if find_spec(family.package) is None:
            raise RouteKeyError(
                "to" if is_outward else "from",
                f"needs the package {family.distribution}: pip install 'msmq[{family.extra}]'",
            )
        return self._outward(family) if is_outward else self._inward(family)

    def _outward(self, family: BrokerFamily) -> OutwardSettings:
        values = self.values
        end = family.outward(values["to"], values, self._trail_name)
        expression = values["routing_key"]
        return OutwardSettings(
            **self._common(end, values["from"], values["dead_letters"] or DEAD_LETTERS, IOutwardMapping),
            answers=values["answers"] or "",
            rules=OutwardRules(
                **self._rules(lambda name: name in family.settable or name.startswith(HEADER)),
                exchange=end.exchange,
                routing_key=end.routing_key,
                routing_expression=None if expression is None else MessageExpression.parse(expression),
                answers=bool(values["answers"]),
                longest_text=family.longest_text,
                has_claims=values["claim_check"] is not None,
            ),
        )

    def _inward(self, family: BrokerFamily) -> InwardSettings:
        values = self.values
        end = family.inward(values["from"], values, self._trail_name)
        return InwardSettings(
            **self._common(
                end, values["to"], values["dead_letters"] or f"{end.source}.dead-letters", IInwardMapping
            ),
            broker_queue=end.source,
            rules=InwardRules(
                **self._rules(SETTABLE.__contains__),
                delivery=values["delivery"],
                reply_queue=values["reply_queue"] or "",
            ),
        )

    @property
    def _trail_name(self) -> str:
        return f"{self.origin}/{self.values['name']}"

    def _rules(self, accepts: Callable[[str], bool]) -> dict[str, Any]:
        found = {}
        decode = self.values["decode"]
        for name, text in (self.values["properties"] or {}).items():
            if not accepts(name) or name == HEADER:
                raise RouteKeyError("properties", f"has {quoted(name)}, which this direction cannot set")
            try:
                found[name] = MessageExpression.parse(text)
            except ValueError as error:
                raise RouteKeyError("properties", f"of {quoted(name)} {error}") from error
        return {
            "route": self._trail_name,
            "properties": found,
            "limit": self.values["limit"],
            "hops": self.values["hops"],
            "decoding": None if decode is None else BodyDecoding(decode, _decoders()),
            "replies": dict(self.values["replies"] or {}),
        }

    def _common(
        self, end: BrokerEnd, queue: str, dead_letters: str, interface: type[Interface]
    ) -> dict[str, Any]:
        values = self.values
        if "claim_lifetime" in self.given and values["claim_check"] is None:
            raise RouteKeyError("claim_lifetime", "is used with claim_check alone")
        return {
            "name": values["name"],
            "queue": queue,
            "dead_letters": dead_letters,
            "window": values["window"],
            "stops_at_failure": values["on_failure"] == "stop",
            "claims": None if values["claim_check"] is None else Path(values["claim_check"]),
            "claim_lifetime": values["claim_lifetime"],
            "mapping": self._mapping(interface),
            "broker": end.settings,
        }

    def _mapping(self, interface: type[Interface]) -> MappingClass | None:
        if self.values["mapping"] is None:
            return None
        try:
            return MappingClass.load(self.values["mapping"], interface)
        except ValueError as error:
            raise RouteKeyError("mapping", str(error)) from error
