"""Rules that an operator writes."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.security.access import Ruling
from msmq.security.access.rules import MOST_PATHS, QueueRule, Rules, RulesError, load_rules
from msmq.windows.sddl import format_sddl, parse_sddl

WHOLE = """
[names]
clerks = "S-1-5-21-1-2-3-2001"
"the boss" = "S-1-5-21-1-2-3-1001"

[[queue]]
path = 'private$\\orders*'
owner = "the boss"
allow.clerks = ["send", "peek"]
allow.everyone = "get-properties"
deny.anonymous = ["send"]
deny."S-1-5-21-1-2-3-1009" = "all"

[[queue]]
path = '.\\PRIVATE$\\open[1]'
allow.everyone = ["MQSEC_QUEUE_GENERIC_ALL"]

[[queue]]
path = '*'

[queue_manager]
allow.clerks = ["create-queue", "receive dead letters"]
"""


class CachedRulesTests(SynchronousTestCase):
    """The rule of a path is found once, since every message that arrives needs it."""

    def test_first_match_each_time(self) -> None:
        """The first rule that matches applies at each call, and a path without a rule has none each time."""
        first, second = (Ruling(parse_sddl("D:"), f"rules.toml:{line}") for line in (1, 2))
        rules = Rules(queues=(QueueRule("private$\\or*", first), QueueRule("private$\\*", second)))
        for _ in range(2):
            self.assertIs(rules.ruling("private$\\orders"), first)
            self.assertIs(rules.ruling("private$\\books"), second)
            self.assertIsNone(rules.ruling("books"))

    def test_patterns_are_matched_once(self) -> None:
        """A second question about the same path matches no pattern."""
        matched = []

        class Watched(str):
            def casefold(self) -> str:
                matched.append(self)
                return super().casefold()

        rules = Rules(queues=(QueueRule("private$\\*", Ruling(parse_sddl("D:"), "rules.toml:1")),))
        for _ in range(3):
            self.assertIsNotNone(rules.ruling(Watched("private$\\orders")))
        self.assertEqual(len(matched), 1)

    def test_bounded(self) -> None:
        """However many paths are asked about, the cache is bounded."""
        rules = Rules(queues=(QueueRule("private$\\*", Ruling(parse_sddl("D:"), "rules.toml:1")),))
        for number in range(MOST_PATHS + 10):
            rules.ruling(f"{number}")
        self.assertLessEqual(len(rules._known), MOST_PATHS)


class RulesTests(SynchronousTestCase):
    """L{load_rules}."""

    def load(self, text: str) -> Rules:
        self.path = self.mktemp()
        Path(self.path).write_text(text)
        return load_rules(Path(self.path))

    def problems(self, text: str) -> list[tuple[int | None, str, str]]:
        error = self.assertRaises(RulesError, self.load, text)
        self.assertTrue(str(error).startswith(self.path))
        return [(problem.line, problem.key, problem.problem) for problem in error.problems]

    def test_a_whole_file(self) -> None:
        """Each rule comes to a descriptor, in which what is denied comes first."""
        rules = self.load(WHOLE)
        for path, sddl, line in (
            (
                "private$\\Orders-2",
                "O:S-1-5-21-1-2-3-1001G:S-1-5-21-1-2-3-1001D:(D;;0x4;;;AN)(D;;0xf003f;;;S-1-5-21-1-2-3-1009)"
                "(A;;0x6;;;S-1-5-21-1-2-3-2001)(A;;0x20;;;WD)",
                6,
            ),
            ("private$\\open[1]", "O:SYG:SYD:(A;;0xf003f;;;WD)", 14),
            ("private$\\open1", "O:SYG:SYD:", 18),
            ("other", "O:SYG:SYD:", 18),
        ):
            ruling = rules.ruling(path)
            assert ruling is not None
            self.assertEqual((format_sddl(ruling.descriptor), ruling.source), (sddl, f"{self.path}:{line}"))
        assert rules.machine is not None
        self.assertEqual(format_sddl(rules.machine.descriptor), "O:SYG:SYD:(A;;0x7;;;S-1-5-21-1-2-3-2001)")
        self.assertEqual(rules.sid_of("The Boss"), rules.names["the boss"])
        self.assertEqual(rules.name_of(rules.names["clerks"]), "clerks")

    def test_nothing_is_written(self) -> None:
        """An empty file has no rules."""
        rules = self.load("")
        self.assertEqual(
            (rules.ruling("private$\\orders"), rules.machine, rules.sid_of("x")), (None, None, None)
        )

    def test_a_path_that_fits_no_queue(self) -> None:
        """It is a mistake, since it would keep no sender out."""
        for path, words in (
            ("ALPHA\\private$\\orders", "without a computer"),
            ("ALPHA\\orders", "without a computer"),
            (".\\private\\orders", "without a computer"),
            ("private$\\orders\\2026", "without a computer"),
            ("private$\\orders;journal", "a journal and a subqueue have the rule of their queue"),
            ("system$;deadletter", "a journal and a subqueue have the rule of their queue"),
        ):
            [(line, key, problem)] = self.problems(f"[[queue]]\npath = '{path}'\n")
            self.assertEqual((line, key), (2, "queue[0].path"))
            self.assertIn(words, problem)
        for path, queue in (
            (".\\Private$\\o*", "private$\\orders"),
            ("p*\\orders", "private$\\orders"),
            ("privat??\\orders", "private$\\orders"),
            ("orders", "orders"),
            ("*", "private$\\orders"),
        ):
            self.assertIsNotNone(self.load(f"[[queue]]\npath = '{path}'\n").ruling(queue))

    def test_every_mistake_has_its_line(self) -> None:
        """And all are reported at once."""
        text = """[names]
clerks = "S-1"
[[queue]]
path = "a"
alow.clerks = []
allow.nobody = ["send"]
allow.everyone = [
  "send",
  "sned",
  7,
]
deny = 7
[[queue]]
[queues]
[queue_manager]
owner = 3
allow.everyone = true
path = "a"
"""
        self.assertEqual(
            [(line, key) for line, key, _ in self.problems(text)],
            [
                (2, "names.clerks"),
                (5, "queue[0].alow"),
                (6, "queue[0].allow.nobody"),
                (9, "queue[0].allow.everyone[1]"),
                (10, "queue[0].allow.everyone[2]"),
                (12, "queue[0].deny"),
                (13, "queue[1]"),
                (14, "queues"),
                (16, "queue_manager.owner"),
                (17, "queue_manager.allow.everyone"),
                (18, "queue_manager.path"),
            ],
        )
        reported = [problem for _, _, problem in self.problems(text)]
        self.assertIn("is not a key of a rule; did you mean 'allow'?", reported[1])
        self.assertIn("'nobody' is neither a SID nor any of everyone", reported[2])
        self.assertIn("'sned' is not a right to a queue, which are all, receive, send, ", reported[3])

    def test_names_differ_by_more_than_case(self) -> None:
        """A name for two SIDs is a mistake: a rule would grant its rights to the account of the last line."""
        text = """[names]
Clerks = "S-1-5-21-1-2-3-1001"
clerks = "S-1-5-21-1-2-3-1002"
CLERKS = "S-1-5-21-1-2-3-1001"
"""
        [(line, key, problem)] = self.problems(text)
        self.assertEqual((line, key), (3, "names.clerks"))
        self.assertIn("is the name of another SID too", problem)

    def test_a_path_that_is_not_a_file(self) -> None:
        """It is reported, with its line if it has one."""
        self.assertEqual(self.problems("[names]\nx =\n")[0][:2], (2, ""))
        error = self.assertRaises(RulesError, load_rules, Path("/nonexistent/rules.toml"))
        self.assertEqual(str(error), "/nonexistent/rules.toml: cannot be read: No such file or directory")

    @given(
        st.sampled_from(["names", "queue", "queue_manager", "queue.path", "queue_manager.allow"]),
        st.sampled_from(["0", "true", "'x'", "[]", "[1]", "[[1]]", "{}", "{ x = 1 }", "1979-05-27", "[{}]"]),
    )
    def test_any_value_anywhere(self, key: str, value: str) -> None:
        """Is read, or refused with a line."""
        try:
            self.load(f"{key} = {value}\n")
        except RulesError as error:
            self.assertEqual({problem.line for problem in error.problems}, {1})
