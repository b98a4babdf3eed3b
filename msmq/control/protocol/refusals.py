"""Errors of the control API: an HTTP status, and an object with C{error} and C{detail}."""

from __future__ import annotations

import http
import json
from collections.abc import Iterable
from typing import Any, Final

from msmq.structures.status import MessageTooLarge, MQError, Status

_HTTP: Final = {
    Status.MQ_ERROR_QUEUE_NOT_FOUND: http.HTTPStatus.NOT_FOUND,
    Status.MQ_ERROR_MACHINE_NOT_FOUND: http.HTTPStatus.NOT_FOUND,
    Status.MQ_ERROR_MESSAGE_NOT_FOUND: http.HTTPStatus.NOT_FOUND,
    Status.MQ_ERROR_INVALID_HANDLE: http.HTTPStatus.NOT_FOUND,
    Status.MQ_ERROR_QUEUE_EXISTS: http.HTTPStatus.CONFLICT,
    Status.MQ_ERROR_SHARING_VIOLATION: http.HTTPStatus.CONFLICT,
    Status.MQ_ERROR_TRANSACTION_SEQUENCE: http.HTTPStatus.CONFLICT,
    Status.MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION: http.HTTPStatus.CONFLICT,
    Status.MQ_ERROR_QUEUE_DELETED: http.HTTPStatus.GONE,
    Status.MQ_ERROR_MESSAGE_ALREADY_RECEIVED: http.HTTPStatus.GONE,
    Status.MQ_ERROR_ACCESS_DENIED: http.HTTPStatus.FORBIDDEN,
    Status.MQ_ERROR_IO_TIMEOUT: http.HTTPStatus.REQUEST_TIMEOUT,
    Status.MQ_ERROR_UNSUPPORTED_OPERATION: http.HTTPStatus.NOT_IMPLEMENTED,
    Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION: http.HTTPStatus.NOT_IMPLEMENTED,
    Status.MQ_ERROR_SERVICE_NOT_AVAILABLE: http.HTTPStatus.SERVICE_UNAVAILABLE,
    Status.MQ_ERROR_QUEUE_NOT_AVAILABLE: http.HTTPStatus.SERVICE_UNAVAILABLE,
    Status.MQ_ERROR_NO_DS: http.HTTPStatus.SERVICE_UNAVAILABLE,
    Status.MQ_ERROR_OPERATION_CANCELLED: http.HTTPStatus.SERVICE_UNAVAILABLE,
    Status.MQ_ERROR_INSUFFICIENT_RESOURCES: http.HTTPStatus.INSUFFICIENT_STORAGE,
    Status.MQ_ERROR_MESSAGE_STORAGE_FAILED: http.HTTPStatus.INTERNAL_SERVER_ERROR,
    Status.MQ_ERROR: http.HTTPStatus.INTERNAL_SERVER_ERROR,
}


_LONGEST: Final = 2000
"""Maximum length of a detail, in characters; details may quote input of the caller."""


class ControlError(MQError):
    """A refusal by the API itself, with a more specific HTTP status than that of its MQ_ERROR.

    @ivar http_status: the status of the response.
    """

    def __init__(self, status: Status, detail: str, http_status: http.HTTPStatus) -> None:
        super().__init__(status, detail)
        self.http_status = http_status


class StoredRowUnreadable(MQError):
    """A row of the store is damaged; all others can be read.

    @ivar number: the LookupIdentifier of the message, or the sequence of the entry or event.
    """

    def __init__(self, detail: str, number: int) -> None:
        super().__init__(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, detail)
        self.number = number


class MethodNotAllowed(ControlError):
    """The resource does not support the method.

    @ivar allowed: the supported methods.
    """

    def __init__(self, method: str, path: str, allowed: Iterable[str]) -> None:
        self.allowed = sorted(allowed)
        super().__init__(
            Status.MQ_ERROR_ILLEGAL_OPERATION,
            f"{path} does not support {method}, only {', '.join(self.allowed)}",
            http.HTTPStatus.METHOD_NOT_ALLOWED,
        )


def no_such_resource(path: str) -> ControlError:
    """No resource has this path."""
    return ControlError(
        Status.MQ_ERROR_INVALID_PARAMETER, f"there is no resource {path}", http.HTTPStatus.NOT_FOUND
    )


def too_large(what: str, limit: int) -> ControlError:
    """Refuses C{what} for being over C{limit} bytes."""
    return ControlError(
        Status.MQ_ERROR_INSUFFICIENT_RESOURCES,
        f"{what} is over the limit of {limit} bytes",
        http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    )


def wrong_content(found: str, wanted: str) -> ControlError:
    """Refuses a request body of a type that the resource does not accept."""
    return ControlError(
        Status.MQ_ERROR_INVALID_PARAMETER,
        f"the Content-Type is {found or 'missing'}; this resource takes {wanted}",
        http.HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    )


def not_acceptable(detail: str) -> ControlError:
    """The response format that the caller requests is not supported."""
    return ControlError(Status.MQ_ERROR_INVALID_PARAMETER, detail, http.HTTPStatus.NOT_ACCEPTABLE)


def too_many(what: str, limit: int) -> ControlError:
    """Refuses one more of C{what} while C{limit} are active."""
    return ControlError(
        Status.MQ_ERROR_INSUFFICIENT_RESOURCES,
        f"the limit of {limit} concurrent {what} is reached",
        http.HTTPStatus.SERVICE_UNAVAILABLE,
    )


def no_such_receipt(stream: str, receipt: str) -> ControlError:
    """Refuses a receipt that belongs to no open stream, or that was confirmed before."""
    return ControlError(
        Status.MQ_ERROR_INVALID_HANDLE,
        f"no open stream {stream} has an unconfirmed receipt {receipt}",
        http.HTTPStatus.NOT_FOUND,
    )


def role_too_low(name: str, role: object, wanted: str, required: object) -> MQError:
    """Refuses a caller whose role does not suffice.

    @param name: the name of the caller's token.
    @param wanted: what it requested.
    """
    who = name or "this caller"
    return MQError(
        Status.MQ_ERROR_ACCESS_DENIED, f"{who} has the role {role or 'none'}; {wanted} needs {required}"
    )


def no_longer_admitted() -> MQError:
    """Ends a stream whose caller had the role for it at the beginning, and has it no longer."""
    return MQError(
        Status.MQ_ERROR_ACCESS_DENIED,
        "the token of this connection was removed, has expired or has another role;"
        " connect again with a valid one",
    )


def invalid(detail: str) -> MQError:
    """Refuses a parameter or a header of a record."""
    return MQError(Status.MQ_ERROR_INVALID_PARAMETER, detail)


def internal_error() -> MQError:
    """The response for an internal error; the log has the details."""
    return MQError(Status.MQ_ERROR, "internal error of the server; see its log")


def http_status(error: MQError) -> int:
    """The HTTP status of a refusal."""
    if isinstance(error, ControlError):
        return error.http_status
    return _HTTP.get(error.status, http.HTTPStatus.BAD_REQUEST)


def refusal(error: MQError) -> dict[str, Any]:
    """The JSON object of a refusal; that of a L{StoredRowUnreadable} has its C{number}, and that of a
    L{MessageTooLarge} C{too_large}.
    """
    detail = error.detail if len(error.detail) <= _LONGEST else f"{error.detail[:_LONGEST]}..."
    found: dict[str, Any] = {"error": error.status.name, "detail": detail}
    if isinstance(error, StoredRowUnreadable):
        found["number"] = error.number
    if isinstance(error, MessageTooLarge):
        found["too_large"] = True
    return found


def read_refusal(body: bytes, otherwise: str) -> MQError:
    """Parse the refusal in a response.

    @param otherwise: the text for a response that is not an error object of this API.
    """
    try:
        answer = json.loads(body)
        status, detail = Status[answer["error"]], str(answer["detail"])
        number, is_too_large = answer.get("number"), answer.get("too_large") is True
    except (ValueError, KeyError, TypeError, AttributeError):
        return MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, otherwise)
    if status is Status.MQ_ERROR_MESSAGE_STORAGE_FAILED and type(number) is int:
        return StoredRowUnreadable(detail, number)
    if status is Status.MQ_ERROR_INSUFFICIENT_RESOURCES and is_too_large:
        return MessageTooLarge(detail)
    return MQError(status, detail)
