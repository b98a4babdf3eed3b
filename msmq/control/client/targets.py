"""Request targets of the control API, from names that its callers give."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from msmq.control.protocol.names import DEFAULT_CERTIFICATE
from msmq.quoting import quoted
from msmq.structures.status import MQError, Status


def queue_target(path: str) -> str:
    """The target of a queue.

    @raise MQError: as L{segment}.
    """
    return f"/v1/queues/{segment(path, 'the queue')}"


def drain_target(queue: str) -> str:
    """The target of the drain of a queue.

    @raise MQError: as L{segment}.
    """
    return f"/v1/drains/{segment(queue, 'the queue')}"


def shadow_target(queue: str) -> str:
    """The target of the shadow of a queue.

    @raise MQError: as L{segment}.
    """
    return f"/v1/shadows/{segment(queue, 'the queue')}"


def certificate_target(fingerprint: str) -> str:
    """The target of a certificate; that of the default one if the fingerprint is empty.

    @raise MQError: as L{segment}.
    """
    return f"/v1/certificates/{segment(fingerprint or DEFAULT_CERTIFICATE, 'the certificate')}"


def segment(text: str, what: str) -> str:
    """Quote a name as a path segment; an empty one would select another resource, and so would a changed one.

    @raise MQError: MQ_ERROR_INVALID_PARAMETER: it is empty, or is not UTF-8.
    """
    if not text:
        raise MQError(Status.MQ_ERROR_INVALID_PARAMETER, f"the name of {what} is empty")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise _not_utf8(f"the name of {what}", text) from None


def with_query(target: str, values: Mapping[str, object]) -> str:
    """A target with these parameters, without those that are C{None}.

    @raise MQError: MQ_ERROR_INVALID_PARAMETER: one is not UTF-8.
    """
    given = {name: str(value) for name, value in values.items() if value is not None}
    for name, value in given.items():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise _not_utf8(name, value) from None
    return f"{target}?{urlencode(given)}" if given else target


def _not_utf8(what: str, text: str) -> MQError:
    return MQError(Status.MQ_ERROR_INVALID_PARAMETER, f"{what} is not UTF-8: {quoted(text)}")
