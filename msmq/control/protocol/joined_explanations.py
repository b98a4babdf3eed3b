"""Joins what several servers know about one message into one timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

_LISTS: Final = ("events", "places", "deliveries", "reports")
_OF_A_TIME: Final = ("events", "deliveries", "reports")


@attrs.frozen
class ServerExplanation:
    """The answer of one server.

    @ivar server: how it is called.
    @ivar known: the object of C{GET /v1/messages/ID}; C{None} without an answer.
    @ivar error: why there is none; C{None} with an answer.
    """

    server: str
    known: Mapping[str, Any] | None
    error: str | None


def join_explanations(message: str, answers: Sequence[ServerExplanation]) -> dict[str, Any]:
    """Join the answers of several servers.

    Each entry of the lists has its C{server}; those with a time are in the order of their times, by the clock
    of each server.

    @return: C{id}, C{known}, C{servers} (C{server}, C{known}, C{summary}, C{error}), C{events}, C{places},
        C{deliveries}, C{reports}, and C{message}, the properties from the server that has most of them.
    """
    joined: dict[str, Any] = {"id": message, "known": False, "servers": []}
    joined |= {name: [] for name in _LISTS}
    properties: Mapping[str, Any] = {"id": message}
    for answer in answers:
        known = answer.known
        joined["servers"].append(
            {
                "server": answer.server,
                "known": None if known is None else known["known"],
                "summary": None if known is None else known["summary"],
                "error": answer.error,
            }
        )
        if known is None:
            continue
        joined["known"] = joined["known"] or known["known"]
        if len(known["message"]) > len(properties):
            properties = known["message"]
        for name in _LISTS:
            joined[name] += [{"server": answer.server, **each} for each in known[name]]
    for name in _OF_A_TIME:
        joined[name].sort(key=lambda each: each["time"] or "")
    return {**joined, "message": properties}
