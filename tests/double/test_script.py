"""The script of a double: what each error says, and which messages get a fault."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.cli import main
from msmq.double.double import FaultInjectingDouble
from msmq.double.fault_plan import FaultPlan
from msmq.double.script import DoubleScript, Fault, MessageFacts, MessageKind, PeerRule
from msmq.double.script_file import ScriptError, parse_script
from msmq.errors import LocalProtocolError
from tests.servers.own_address import own_address

WRONG = """identifer = "x"
[ping]
answer = "no"
[session]
count = -1
[[fault]]
action = "delay"
[[fault]]
label = "x"
[[fault]]
action = "refuse"
class = "NACK_BAD_DST"
[[fault]]
action = "close"
after = true
queu = 5
[[fault]]
action = "close"
seconds = 4
"""

REPORTED = [
    "1: identifer: is not a key of a script; did you mean 'identifier'?",
    "3: ping.answer: answer is 'no'; it has to be one of 'accept', 'refuse', 'ignore'",
    "5: session.count: count is -1; it has to be from 0 to 4294967295",
    "6: fault[0]: the action 'delay' needs its seconds, such as seconds = 5",
    "8: fault[1]: needs its action, such as action = 'delay'",
    "12: fault[2].class: 'NACK_BAD_DST' is not a message class; did you mean 'NACK_BAD_DST_Q'?",
    "15: fault[3].after: after has to be a whole number, not true",
    "16: fault[3].queu: is not a key here; did you mean 'queue'?",
    "19: fault[4].seconds: seconds is only for the action 'delay'",
]


class ScriptTests(SynchronousTestCase):
    """Reading a script."""

    def test_each_error_has_its_line(self) -> None:
        """All errors of a script are reported, each with its line and its key."""
        error = self.assertRaises(ScriptError, parse_script, WRONG)
        self.assertEqual(str(error).splitlines(), [f"script:{line}" for line in REPORTED])

    def test_command(self) -> None:
        """C{msmq double} reports them with the name of the file, and ends with status 2."""
        path = Path(self.mktemp())
        path.write_text(WRONG)
        with contextlib.redirect_stderr(io.StringIO()) as reported:
            self.assertEqual(main(["double", "--script", str(path)]), 2)
        self.assertEqual(
            reported.getvalue().splitlines(), [f"msmq double: {path}:{line}" for line in REPORTED]
        )

    def test_output_that_cannot_be_written(self) -> None:
        """C{msmq double} ends when nothing can read what it prints, and does not go on in silence."""
        with open("/dev/full", "wb") as full:
            ended = subprocess.run(
                [sys.executable, "-m", "msmq.cli", "double", "--address", own_address(203)],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
                timeout=60,
            )
        self.assertEqual(
            (ended.returncode, ended.stderr), (1, b"msmq: standard output: No space left on device\n")
        )

    def test_other_documents(self) -> None:
        """What is not TOML, and what is not a table, is reported as such."""
        for text, expected in (
            ("a = ", "script:1: is not TOML"),
            ("fault = 5", "script:1: fault: must be an array of tables"),
            ("ping = 3", "script:1: ping: must be a table"),
            ('identifier = "x"', "script:1: identifier: must be a GUID"),
            ('[session]\nanswer = "ignore"', "script:2: session.answer"),
            (
                '[session]\nanswer = "ignore"\n[ping]\ncount = -1',
                "script:2: session.answer: answer is 'ignore'",
            ),
            ('[[fault]]\naction = "close"\n' * 1001, "fault: 1001 faults; a script has 1000 at most"),
        ):
            self.assertIn(expected, str(self.assertRaises(ScriptError, parse_script, text)))

    def test_arguments(self) -> None:
        """Values from a program are checked as those of a file, by the name of the argument."""
        wrong: list[tuple[Any, dict[str, Any], str]] = [
            (Fault, {"action": "explode"}, "action is 'explode'"),
            (Fault, {"action": "delay", "seconds": float("nan")}, "seconds is nan"),
            (Fault, {"action": "delay", "seconds": 4000}, "seconds is 4000"),
            (Fault, {"action": "close", "queue": b"x"}, "queue has to be a text"),
            (Fault, {"action": "close", "every": 0}, "every is 0"),
            (Fault, {"action": "refuse", "message_class": 0}, "class is 0"),
            (PeerRule, {"count": 1.5}, "count has to be a whole number"),
            (DoubleScript, {"faults": "close"}, "faults is a str"),
            (DoubleScript, {"faults": [{}]}, "faults[0] is a dict"),
            (DoubleScript, {"pings": "refuse"}, "pings is a str"),
            (DoubleScript, {"identifier": "x"}, "identifier is 'x'"),
            (FaultInjectingDouble, {"script": 5}, "script is an int"),
            (FaultInjectingDouble, {"address": "localhost"}, "address is 'localhost'"),
            (FaultInjectingDouble, {"name": b"x"}, "name is"),
        ]
        for make, arguments, expected in wrong:
            with self.subTest(arguments=arguments):
                self.assertIn(expected, str(self.assertRaises(LocalProtocolError, make, **arguments)))


class FaultPlanTests(SynchronousTestCase):
    """Which messages get a fault."""

    def chosen(self, faults: str, count: int, **facts: Any) -> list[str]:
        plan = FaultPlan(parse_script(faults))
        message = MessageFacts(
            **{"queue": "private$\\orders", "label": "A", "kind": MessageKind.EXPRESS, **facts}
        )
        found = [plan.fault_of(message) for _ in range(count)]
        return ["" if fault is None else fault.action.value for fault in found]

    def test_counted(self) -> None:
        """Of the matching messages the first C{after} are spared, then each C{every}th, C{count} at most."""
        text = '[[fault]]\naction = "close"\nafter = 1\nevery = 2\ncount = 2'
        self.assertEqual(self.chosen(text, 8), ["", "close", "", "close", "", "", "", ""])

    def test_first_counts(self) -> None:
        """The first fault that applies counts, and the next one when the first is used up."""
        text = '[[fault]]\naction = "close"\ncount = 1\n[[fault]]\naction = "lose"'
        self.assertEqual(self.chosen(text, 3), ["close", "lose", "lose"])

    def test_patterns(self) -> None:
        """Queue, label and kind have to match, without regard to case; brackets have no special meaning."""
        for text, is_match in (
            ("queue = 'PRIVATE$\\OR*'", True),
            ("queue = '.\\private$\\orders'", True),
            ("queue = 'orders'", False),
            ('label = "?"', True),
            ('label = "[A]"', False),
            ('kind = "express"', True),
            ('kind = "recoverable"', False),
        ):
            expected = ["lose" if is_match else ""]
            self.assertEqual(self.chosen(f'[[fault]]\naction = "lose"\n{text}', 1), expected, text)
