"""Filters messages by a JMESPath expression over their JSON keys, and by a text in their bodies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions

from msmq.bounded_evaluation import BoundedInterpreter
from msmq.control.protocol.refusals import invalid
from msmq.quoting import quoted
from msmq.spelling import closest

_LONGEST: Final = 2_000
"""Maximum length of an expression in characters."""

_WIDEST: Final = 1_000
"""Maximum number of values in nested lists and objects that an expression builds."""

KEYS: Final = frozenset(
    "id lookup_id label body body_base64 report body_size body_type priority class class_name delivery"
    " transactional sent_time arrived_time source_queue_manager destination_queue admin_queue response_queue"
    " correlation_id application_tag hops journal dead_letter dead_letter_queue acknowledge extension_base64"
    " authenticated sender_id transaction abort_count move_count decoded decode_error".split()
)
"""Keys of a message that an expression may use."""


class MessageFilter:
    """A filter of messages; a pure function of each message.

    @param where: an expression of U{https://jmespath.org}; a message matches if its value is neither false,
        null nor empty.
    @param text: a text that the body has to contain, as UTF-8 or as UTF-16.
    @ivar wants_decoded: whether the expression uses the decoded body.
    @ivar wants_body: whether the expression uses the body.
    @ivar uses_class: whether the expression names the class of a message.
    @ivar failed: the number of messages on which the expression failed, such as C{starts_with} on a number,
        or costs too much.
    @ivar failure: the reason of the first failure.
    @param keys: the keys that an expression may use.
    @param what: the object that has the keys, for error texts.
    @raise MQError: MQ_ERROR_INVALID_PARAMETER for an expression that is malformed, names a key that no
        message has, or builds more values than a filter needs; or for a text with lone surrogates.
    """

    def __init__(
        self,
        where: str | None,
        text: str | None,
        keys: frozenset[str] = KEYS,
        what: str = "a message",
    ) -> None:
        self._expression = None if where is None else _parse(where)
        self._interpreter = BoundedInterpreter()
        named = frozenset() if self._expression is None else frozenset(_root_keys(self._expression.parsed))
        for key in sorted(named - keys):
            close = closest(key, sorted(keys))
            meant = f"; it has {', '.join(sorted(keys))}" if close is None else f"; did you mean {close}?"
            raise invalid(f"where: {what} has no key {quoted(key)}{meant}")
        # An expression may use the whole message, as contains(values(@), 'x') does.
        whole = self._expression is not None and not named
        self.wants_decoded = whole or not named.isdisjoint(("decoded", "decode_error"))
        self.wants_body = whole or not named.isdisjoint(("body", "body_base64", "report"))
        self.uses_class = not named.isdisjoint(("class", "class_name"))
        self._texts = () if text is None else _encodings(text)
        self.failed = 0
        self.failure = ""

    @property
    def is_empty(self) -> bool:
        """Whether every message matches."""
        return self._expression is None and not self._texts

    def has_text(self, body: bytes | memoryview) -> bool:
        """Whether a body contains the text, if there is one."""
        return not self._texts or any(text in bytes(body) for text in self._texts)

    def failures(self) -> dict[str, Any]:
        """The messages on which the expression failed, as C{not_compared}, and the first C{reason}; empty if
        there are none.
        """
        return {"not_compared": self.failed, "reason": self.failure} if self.failed else {}

    def matches(self, message: Mapping[str, Any]) -> bool:
        """Whether a message matches the expression, if there is one."""
        if self._expression is None:
            return True
        try:
            value = self._interpreter.evaluate(self._expression.parsed, message)
        except (ArithmeticError, JMESPathError, RecursionError, TypeError, ValueError) as error:
            # A comparison of a number and a text, as of priority > '3', is a TypeError.
            self.failed += 1
            hint = "; a number has backticks around it" if isinstance(error, TypeError) else ""
            self.failure = self.failure or _one_line(error) + hint
            return False
        return not (value is None or value is False or value == "" or value == [] or value == {})


def _encodings(text: str) -> tuple[bytes, ...]:
    try:
        return tuple({text.encode(code) for code in ("utf-8", "utf-16-le")})
    except UnicodeEncodeError:
        raise invalid("body has lone surrogates, which no text in a body has") from None


def _parse(where: str) -> Any:
    if len(where) > _LONGEST:
        raise invalid(f"where has {len(where)} characters, and an expression may have {_LONGEST}")
    try:
        expression = jmespath.compile(where)
        widths = prod(_widths(expression.parsed))
    except (JMESPathError, ValueError) as error:
        raise invalid(f"where: {quoted(where)} is not a JMESPath expression: {_one_line(error)}") from error
    except RecursionError:
        raise invalid(f"where: {quoted(where)} has too many levels") from None
    for name in _functions(expression.parsed):
        if name not in Functions.FUNCTION_TABLE:
            raise invalid(f"where: JMESPath has no function {quoted(name)}")
    if widths > _WIDEST:
        raise invalid(f"where: {quoted(where)} builds lists of lists with more than {_WIDEST} values")
    return expression


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _children(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    # The bounds of a slice are numbers, not nodes.
    return (child for child in node["children"] if isinstance(child, Mapping))


def _widths(node: Mapping[str, Any]) -> Iterator[int]:
    """The number of values in each list and object that an expression builds."""
    if node["type"] in ("multi_select_list", "multi_select_dict"):
        yield max(len(node["children"]), 1)
    for child in _children(node):
        yield from _widths(child)


def _functions(node: Mapping[str, Any]) -> Iterator[str]:
    """The functions that an expression calls."""
    if node["type"] == "function_expression":
        yield str(node["value"])
    for child in _children(node):
        yield from _functions(child)


_OF_THE_FIRST: Final = frozenset(
    "subexpression index_expression pipe projection value_projection filter_projection flatten".split()
)
"""Nodes whose first child is applied to the message, and the others to its result."""


def _root_keys(node: Mapping[str, Any]) -> Iterator[str]:
    """The keys of the message itself that an expression names."""
    kind = node["type"]
    if kind == "field":
        yield str(node["value"])
    elif kind == "expref":
        # The child is applied to the elements of a list.
        return
    elif kind in _OF_THE_FIRST:
        yield from _root_keys(node["children"][0])
    else:
        for child in _children(node):
            yield from _root_keys(child)
