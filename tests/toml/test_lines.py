"""Tests of finding the lines of keys in a TOML text, with tomllib as the oracle."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.toml.lines import Path, locate

_DISTRACTIONS = st.sampled_from(
    ["", "  ", "# [not] a = table", '# "', "# '''", "\n", "\t# x = [1, 2]\n\n", "# }", '# """\n']
)
_STRINGS = st.sampled_from(
    [
        '"plain"',
        '"esc \\" [x] # = \\\\"',
        "'literal \\'",
        '\'# [no] """ \'',
        '"""\nkey = 1\n[table]\n"""',
        '"""one\\"""two"""',
        '"""quotes at the end""""',
        '"""two quotes at the end"""""',
        '""""begins with one"""',
        '""""""',
        "'''\n''\n[[a]]\nb = 'c'\n'''",
        "'''ends in two'''''",
        "''''''",
        '""',
        "''",
        "1979-05-27 07:32:00",
        "+1e3",
        "inf",
        "true",
    ]
)
_BARE = st.text("abz019_-", min_size=1, max_size=4)
_KEY = st.one_of(
    _BARE,
    st.sampled_from(['"a.b"', '"quo\\"te"', "'lit # eral'", '"\\u00e9"', '""', "'='", '"[x]"', '"]"']),
)


class _Text:
    """A TOML text while it is written, with the line on which each number was put."""

    def __init__(self) -> None:
        self.text = ""
        self.lines: dict[int, int] = {}
        self.numbers = count(100_000)

    def add(self, text: str) -> None:
        self.text += text

    def number(self) -> None:
        number = next(self.numbers)
        self.lines[number] = self.text.count("\n") + 1
        self.add(str(number))


def _write_value(text: _Text, draw: Any, depth: int = 0) -> None:
    kinds = ["number", "number", "string"] + (["array", "table"] if depth < 3 else [])
    match draw(st.sampled_from(kinds)):
        case "number":
            text.number()
        case "string":
            text.add(draw(_STRINGS))
        case "array":
            text.add("[")
            size = draw(st.integers(0, 3))
            for index in range(size):
                text.add(draw(_DISTRACTIONS) + "\n" if draw(st.booleans()) else " ")
                _write_value(text, draw, depth + 1)
                text.add(draw(st.sampled_from(["", " ", " # ,]\n"])))
                if index < size - 1 or draw(st.booleans()):
                    text.add(",")
            text.add(draw(st.sampled_from(["", "\n", " # end ]\n"])) + "]")
        case "table":
            text.add("{")
            names = draw(st.lists(_BARE, max_size=3, unique=True))
            for index, name in enumerate(names):
                text.add(f" {name}{draw(st.sampled_from(['', '.inner']))} = ")
                _write_value(text, draw, depth + 1)
                text.add(", " if index < len(names) - 1 else "")
            text.add(" }")


@st.composite
def _documents(draw: Any) -> _Text:
    text = _Text()
    for part in range(draw(st.integers(0, 4))):
        header = [f"t{part}"] if draw(st.booleans()) else draw(st.lists(_KEY, min_size=1, max_size=3))
        dotted = draw(st.sampled_from([".", " . ", ".\t"])).join(header)
        if part:
            text.add(draw(st.sampled_from(["[{}]", " [ {} ]", "[[{}]]", "[[ {} ]]"])).format(dotted))
            text.add(draw(st.sampled_from(["", " # comment"])) + "\n")
        for _ in range(draw(st.integers(0, 4))):
            text.add(draw(_DISTRACTIONS))
            if "#" in text.text.rpartition("\n")[2]:
                text.add("\n")
            key = draw(st.lists(_KEY, min_size=1, max_size=3))
            text.add(".".join(key) + draw(st.sampled_from([" = ", "=", "\t=\t"])))
            _write_value(text, draw)
            text.add(draw(st.sampled_from(["\n", " # c = 1\n", "\n\n"])))
    return text


def _paths(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _paths(inner, (*path, index))


def _parsed(text: str) -> Mapping[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


class LocateTests(SynchronousTestCase):
    @given(_documents())
    def test_finds_what_tomllib_finds(self, document: _Text) -> None:
        """Every key and element that C{tomllib} reads has a line, and the line of a number is its own."""
        parsed = _parsed(document.text)
        if parsed is None:
            return  # The pieces happened to say something twice.
        lines = locate(document.text)
        found = dict(_paths(parsed))
        self.assertEqual(set(lines), set(found), document.text)
        for path, value in found.items():
            if isinstance(value, int) and value in document.lines:
                self.assertEqual(lines[path], document.lines[value], document.text)

    @given(_documents())
    def test_counts_windows_line_ends_as_one(self, document: _Text) -> None:
        """A file that was written with CR LF has the same lines."""
        if _parsed(document.text) is not None:
            self.assertEqual(locate(document.text.replace("\n", "\r\n")), locate(document.text))

    @given(st.text(st.sampled_from("ab.=[]{}\"'#,\\ \n1"), max_size=30))
    def test_raises_nothing_but_value_error(self, text: str) -> None:
        """A text that is not TOML is refused or not, but never breaks anything."""
        try:
            locate(text)
        except ValueError:
            pass

    @given(st.text(st.sampled_from("ab.=[]{}\"'#,\\ \n1"), max_size=30))
    def test_agrees_on_short_texts(self, text: str) -> None:
        """Every short text that C{tomllib} accepts is located completely."""
        parsed = _parsed(text)
        if parsed is not None:
            self.assertEqual(set(locate(text)), set(dict(_paths(parsed))))

    def test_each_kind_of_key_has_its_line(self) -> None:
        """Tables, dotted keys, inline tables, arrays of tables and array elements have lines."""
        text = (
            "first = 1\n"  # 1
            "[limits]\n"  # 2
            "a.b = 2  # comment\n"  # 3
            "text = '''\n"  # 4
            "quota = 3\n"
            "'''\n"
            "quota = 4\n"  # 7
            "[hosts]\n"  # 8
            '"a.b" = { x = 1, y.z = 2 }\n'  # 9
            "list = [\n"  # 10
            "  1,\n"  # 11
            "  # nothing\n"
            "  2 ]\n"  # 13
            "[[site]]\n"  # 14
            "name = 'A'\n"  # 15
            "[[site]]\n"  # 16
            "[site.inner]\n"  # 17
            "name = 'B'\n"  # 18
        )
        self.assertEqual(
            locate(text),
            {
                ("first",): 1,
                ("limits",): 2,
                ("limits", "a"): 3,
                ("limits", "a", "b"): 3,
                ("limits", "text"): 4,
                ("limits", "quota"): 7,
                ("hosts",): 8,
                ("hosts", "a.b"): 9,
                ("hosts", "a.b", "x"): 9,
                ("hosts", "a.b", "y"): 9,
                ("hosts", "a.b", "y", "z"): 9,
                ("hosts", "list"): 10,
                ("hosts", "list", 0): 11,
                ("hosts", "list", 1): 13,
                ("site",): 14,
                ("site", 0): 14,
                ("site", 0, "name"): 15,
                ("site", 1): 16,
                ("site", 1, "inner"): 17,
                ("site", 1, "inner", "name"): 18,
            },
        )
