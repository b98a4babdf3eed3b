r"""[MS-MQMQ] 2.1.1: path names are read, printed and compared as the documents say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.names.format_name import QueueSuffix
from msmq.structures.names.name_text import is_format_name, is_outgoing_path
from msmq.structures.names.path_name import PathKind, PathName, parse_path_name
from msmq.structures.status import MQError, Status
from tests.strategies_names import path_names

ALMOST_NAMES = st.lists(
    st.sampled_from(
        [".", "srv", "\\", "private$\\", "System$;", ";", "journal", "q", ",", " ", "\0", "é", "\ud800"]
    ),
    max_size=7,
).map("".join)


class PathNameTests(SynchronousTestCase):
    """L{parse_path_name}."""

    def refused(self, text: str, version: int = 4, *, lenient: bool = False) -> str:
        """Assert that C{text} is not a path name, and give the detail."""
        error: MQError = self.assertRaises(MQError, parse_path_name, text, version, lenient)
        self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME)
        return error.detail

    @given(path_names())
    def test_any_name_is_read_back_from_its_text(self, name: PathName) -> None:
        """The text of a name is parsed into an equal name, in capitals too."""
        self.assertEqual(parse_path_name(str(name)), name)
        self.assertEqual(parse_path_name(str(name).upper()), name)
        self.assertEqual(hash(parse_path_name(str(name).upper())), hash(name))

    @given(path_names(lenient=True))
    def test_any_lenient_name_is_read_back_leniently(self, name: PathName) -> None:
        """Spaces and letters beyond ASCII round-trip too."""
        self.assertEqual(parse_path_name(str(name), lenient=True), name)

    @given(st.text() | ALMOST_NAMES, st.integers(1, 6), st.booleans())
    def test_any_text_is_a_name_or_illegal(self, text: str, version: int, lenient: bool) -> None:
        """No text can cause anything but a name or MQ_ERROR_ILLEGAL_QUEUE_PATHNAME."""
        try:
            name = parse_path_name(text, version, lenient)
        except MQError as error:
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_QUEUE_PATHNAME)
        else:
            self.assertEqual(parse_path_name(str(name), version, lenient), name)

    def test_a_public_queue(self) -> None:
        r"""MQMQ-2.1.1-01: srv\q is the queue q of the computer srv."""
        name = parse_path_name("srv\\q")
        self.assertEqual((name.kind, name.computer, name.queue), (PathKind.PUBLIC, "srv", "q"))
        self.assertEqual((name.queue_path, str(name)), ("q", "srv\\q"))

    def test_a_private_queue(self) -> None:
        r"""MQMQ-2.1.1-02: private$\ stands before its name."""
        name = parse_path_name("srv\\private$\\q")
        self.assertEqual((name.kind, name.computer, name.queue), (PathKind.PRIVATE, "srv", "q"))
        self.assertEqual((name.queue_path, str(name)), ("private$\\q", "srv\\private$\\q"))

    def test_a_system_queue(self) -> None:
        """MQMQ-2.1.1-03: system$; stands before its name."""
        name = parse_path_name("srv\\system$;deadletter")
        self.assertEqual((name.kind, name.queue), (PathKind.SYSTEM, "deadletter"))
        self.assertEqual(name.suffix, QueueSuffix.DEADLETTER)
        self.assertEqual((name.queue_path, str(name)), ("system$", "srv\\system$;deadletter"))

    def test_the_literal_parts_have_no_case(self) -> None:
        """MQMQ-2.1.1-04: PRIVATE$ and Private$ mean the same, and so do SYSTEM$ and system$."""
        self.assertEqual(parse_path_name("srv\\PRIVATE$\\q"), parse_path_name("srv\\Private$\\q"))
        self.assertEqual(parse_path_name("srv\\SYSTEM$;JOURNAL"), parse_path_name("srv\\system$;journal"))
        self.assertEqual(str(parse_path_name("srv\\PRIVATE$\\q")), "srv\\private$\\q")

    def test_a_computer_has_1_to_256_characters(self) -> None:
        """MQMQ-2.1.1-05: of printable ASCII without the space."""
        for computer in ("c", "c" * 256, "!~"):
            self.assertEqual(parse_path_name(f"{computer}\\q").computer, computer)
        for computer in ("", "c" * 257, "a b", "a\x7f", "é"):
            self.refused(f"{computer}\\q")

    def test_a_computer_has_none_of_the_separators(self) -> None:
        """A semicolon or comma would make two names of one."""
        for computer in ("a;b", "a,b"):
            self.refused(f"{computer}\\q")

    def test_a_queue_has_1_to_124_characters(self) -> None:
        """MQMQ-2.1.1-06: in every version, and leniently too."""
        for queue in ("q", "q" * 124):
            self.assertEqual(parse_path_name(f"srv\\{queue}").queue, queue)
        for queue in ("", "q" * 125):
            for version in (1, 2, 4):
                self.refused(f"srv\\{queue}", version)
            self.refused(f"srv\\{queue}", lenient=True)

    def test_the_alphabet_of_msmq_1(self) -> None:
        """MQMQ-2.1.1-07: everything from ! to DEL but the semicolon and the backslash."""
        for code in range(0x80):
            text = f"srv\\a{chr(code)}b"
            if 0x21 <= code <= 0x7F and chr(code) not in ";\\":
                self.assertEqual(str(parse_path_name(text, 1)), text)
            else:
                self.refused(text, 1)

    def test_the_alphabet_of_msmq_2_and_3(self) -> None:
        """MQMQ-2.1.1-08: the quote, plus and comma are no more part of it."""
        for code in range(0x80):
            text = f"srv\\a{chr(code)}b"
            for version in (2, 3):
                if 0x21 <= code <= 0x7F and chr(code) not in '"+,;\\':
                    self.assertEqual(str(parse_path_name(text, version)), text)
                else:
                    self.refused(text, version)

    def test_a_subqueue_since_msmq_4(self) -> None:
        """MQMQ-2.1.1-09: behind a semicolon, which earlier versions refuse."""
        for version in (4, 5, 6):
            name = parse_path_name("srv\\q;sub", version)
            self.assertEqual((name.queue, name.subqueue), ("q", "sub"))
        for version in (1, 2, 3):
            self.assertIn("';' is not allowed in a queue name", self.refused("srv\\q;sub", version))

    def test_a_subqueue_has_1_to_32_characters(self) -> None:
        """MQMQ-2.1.1-10: of the alphabet of MSMQ 2.0."""
        self.assertEqual(parse_path_name(f"srv\\q;{'s' * 32}").subqueue, "s" * 32)
        for subqueue in ("", "s" * 33, "a+b", "a;b", 'a"b', "a,b", "a\\b"):
            self.refused(f"srv\\q;{subqueue}")

    def test_the_journal_of_a_queue(self) -> None:
        """The reserved word wins over a subqueue of that name."""
        name = parse_path_name(".\\private$\\q;journal")
        self.assertEqual((name.suffix, name.subqueue), (QueueSuffix.JOURNAL, None))
        self.assertEqual(str(name), ".\\private$\\q;JOURNAL")
        self.refused("srv\\q;deadletter")
        self.refused("srv\\q;sub;JOURNAL")

    def test_a_dot_is_the_local_computer(self) -> None:
        """As the command line has it."""
        self.assertTrue(parse_path_name(".\\q").is_local)
        self.assertFalse(parse_path_name("srv\\q").is_local)

    def test_a_system_queue_that_does_not_exist_is_still_a_name(self) -> None:
        """The queue manager, not the parser, reports that it does not exist."""
        name = parse_path_name("srv\\system$;other")
        self.assertEqual((name.kind, name.suffix), (PathKind.SYSTEM, QueueSuffix.NONE))

    def test_a_name_without_a_queue_is_illegal(self) -> None:
        """The error says what is missing and where."""
        self.assertEqual(
            self.refused("srv"), "a backslash and a queue name are missing at character 4 of 'srv'"
        )
        for text in ("", "\\", "srv\\", "srv\\private$", "srv\\private$\\", "srv\\system$", "srv\\system$;"):
            self.refused(text)

    def test_characters_beyond_ascii(self) -> None:
        """A queue may have a name in any script, in every version, without invisible characters."""
        for queue in ("Aufträge", "заказы", "注文", "é" * 124):
            for version in (1, 2, 4):
                for path in (f"srv\\{queue}", f"srv\\private$\\{queue}"):
                    self.assertEqual(str(parse_path_name(path, version)), path)
        self.assertEqual(parse_path_name("srv\\q;ältere").subqueue, "ältere")
        self.assertEqual(parse_path_name("srv\\BÜCHER"), parse_path_name("srv\\bücher"))
        for character in ("\x80", "\xa0", "\u200b", "\u202e", "\u3000", "\ud800", "\ufeff"):
            for lenient in (False, True):
                self.assertIn("at character 6", self.refused(f"srv\\ä{character};", lenient=lenient))

    def test_spaces_need_leniency(self) -> None:
        """They occur in real names, but are outside the grammar."""
        text = "srv\\private$\\Aufträge, alt"
        self.refused(text)
        self.assertEqual(str(parse_path_name(text, lenient=True)), text)

    def test_values_that_no_text_could_say_are_refused(self) -> None:
        """A program cannot make them either."""
        for make in (
            lambda: PathName("srv", ""),
            lambda: PathName("srv", "a;b"),
            lambda: PathName("srv", "private$"),
            lambda: PathName("srv", "q", suffix=QueueSuffix.DEADXACT),
            lambda: PathName("srv", "q", PathKind.PRIVATE, "s", QueueSuffix.JOURNAL),
            lambda: PathName("srv", "journal", PathKind.SYSTEM, suffix=QueueSuffix.DEADXACT),
            lambda: PathName("srv", "journal", PathKind.SYSTEM, "s"),
        ):
            self.assertRaises(MQError, make)


class KindTests(SynchronousTestCase):
    """Whether a text is a path name or a format name."""

    def test_equals_sign(self) -> None:
        """An equals sign makes a format name of a text only where it stands before the queue."""
        for path in ("srv\\a=b", "srv\\*)(objectClass=*", ".\\private$\\DIRECT=x", "srv\\public=1"):
            self.assertFalse(is_format_name(path))
            self.assertEqual(str(parse_path_name(path)), path)
        for name in ("DIRECT=OS:srv\\a=b", "public=0", "DRICET=OS:srv\\q", "DL=0@a=b"):
            self.assertTrue(is_format_name(name))

    def test_stored_path(self) -> None:
        """An own queue with an equals sign in its name is not taken for an outgoing queue."""
        for path in ("a=b", "private$\\a=b", "private$\\direct=x"):
            self.assertFalse(is_outgoing_path(path))
        self.assertTrue(is_outgoing_path("DIRECT=OS:srv\\q"))
