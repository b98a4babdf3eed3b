"""Converts XML documents, text or binary, to plain data.

An element is an object with one key for each attribute (C{@name}) and for each child (its local name;
a list, if the name is repeated), and C{#text}. An element that has only text is that text, and one
with C{xsi:nil} is C{None}. Namespaces, comments and the order of children of different names are not kept;
they are in the original bytes.
"""

from __future__ import annotations

from typing import Any, Final

from msmq.decoding.bodies.budget import Budget
from msmq.interfaces.decoding import BodyNotDecoded

_NIL: Final = ("true", "1")


def local_name(name: str) -> str:
    """A qualified name without its prefix."""
    return name.rpartition(":")[2]


class _Element:
    __slots__ = ("content", "name", "nil", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.content: dict[str, Any] = {}
        self.text: list[str] = []
        self.nil = False

    def add(self, key: str, value: Any) -> None:
        """Add a child or an attribute; a repeated key becomes a list."""
        if key not in self.content:
            self.content[key] = value
            return
        held = self.content[key]
        if isinstance(held, _Repeated):
            held.append(value)
        else:
            self.content[key] = _Repeated((held, value))

    def value(self) -> Any:
        text = "".join(self.text)
        if self.nil and not text.strip() and not self.content:
            return None
        if not self.content:
            return text
        if text.strip():
            self.content["#text"] = text
        return self.content


class _Repeated(list[Any]):
    """The values of a repeated key; no other value has this type."""


class ElementTree:
    """Builder of plain data from the events of a document.

    @raise BodyNotDecoded: from each method, if the document exceeds the limits or is malformed.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._open: list[_Element] = []
        self._root: tuple[str, Any] | None = None

    @property
    def depth(self) -> int:
        """How many elements are open."""
        return len(self._open)

    def start(self, name: str) -> None:
        """An element begins."""
        if self._root is not None:
            raise BodyNotDecoded(f"has a second root element, {name}")
        self._budget.item()
        self._budget.depth(len(self._open) + 1)
        self._open.append(_Element(local_name(name)))

    def attribute(self, name: str, value: str) -> None:
        """The element that began last has an attribute; one that declares a namespace is not kept."""
        if name == "xmlns" or name.startswith("xmlns:"):
            return
        self._budget.item()
        self._budget.characters(len(value))
        local = local_name(name)
        element = self._innermost()
        if local == "nil" and local != name and value in _NIL:
            element.nil = True
        else:
            element.add(f"@{local}", value)

    def text(self, text: str) -> None:
        """The innermost open element has text; white space outside the root is ignored."""
        if not self._open and not text.strip():
            return
        self._budget.characters(len(text))
        self._innermost().text.append(text)

    def end(self) -> None:
        """The innermost open element ends."""
        element = self._innermost()
        self._open.pop()
        value = element.value()
        if self._open:
            self._open[-1].add(element.name, value)
        else:
            self._root = element.name, value

    def document(self) -> dict[str, Any]:
        """The whole document, an object with the root element as its only key."""
        if self._open:
            raise BodyNotDecoded(f"ends inside the element {self._open[-1].name}")
        if self._root is None:
            raise BodyNotDecoded("has no root element")
        name, value = self._root
        return {name: value}

    def _innermost(self) -> _Element:
        if not self._open:
            raise BodyNotDecoded("has content outside its root element")
        return self._open[-1]
