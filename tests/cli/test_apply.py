"""C{msmq apply}: queues, quotas and access from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred

from msmq.manager.applications.targets import own_queue
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.persistence.changes import Change
from msmq.testing.access_control import MemoryAccessControl
from msmq.windows.well_known_sids import ADMINISTRATORS
from tests.cli.served import ServedCommandTestCase
from tests.control.support import ORDERS, resource

FILE = r"""
[[queue]]
path = '.\private$\ORDERS'
label = "Orders"
quota = 1024
journal = true
log_age = "none"

[[queue]]
path = 'localhost\private$\invoices'
transactional = true
"""

PLAN = [
    ("change", ORDERS, "label", "", "Orders"),
    ("change", ORDERS, "journal", False, True),
    ("change", ORDERS, "quota", None, 1024),
    ("create", "localhost\\private$\\invoices", "transactional", None, True),
]


class ApplyTestCase(ServedCommandTestCase):
    """A queue manager with a queue and access control."""

    def options(self) -> Mapping[str, Any]:
        return {"access": AccessPolicy(MemoryAccessControl(), ADMINISTRATORS)}

    def write(self, text: str) -> str:
        """A file with this content."""
        name: str = self.mktemp() + ".toml"
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
        return name

    def apply(self, text: str, *options: str) -> list[tuple[Any, ...]]:
        """The output of the command for a file."""
        ended = self.msmq("apply", self.write(text), *options, "--json")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        return [tuple(row[key] for key in ("action", "queue", "key", "from", "to")) for row in ended.objects]

    def paths(self) -> list[str]:
        return [queue.path for queue in self.service.inspection.queues()]

    def assert_wrong(self, text: str, line: int | None, *words: str, options: tuple[str, ...] = ()) -> None:
        """A file that is refused with one line, which names it, and changes nothing."""
        before = self.call("GET", "/v1/queues").json
        name = self.write(text)
        where = name if line is None else f"{name}:{line}: "
        self.assert_ended(["apply", name, *options], 1, where, *words)
        self.assertEqual(self.call("GET", "/v1/queues").json, before)


class ApplyTests(ApplyTestCase):
    """Differences, and what is done about them."""

    def test_differences(self) -> None:
        """They are printed, then done; names are compared as the server does; again changes nothing."""
        self.assertEqual(self.apply(FILE, "--dry-run"), PLAN)
        self.assertEqual(self.paths(), [ORDERS])
        self.assertEqual(self.apply(FILE), PLAN)
        orders, invoices = self.call("GET", "/v1/queues").json
        self.assertEqual((orders["label"], orders["quota"], orders["journal"]), ("Orders", 1024, True))
        self.assertTrue(invoices["transactional"])
        self.assertEqual(self.apply(FILE), [])
        self.assertIn("no differences", self.msmq("apply", "-", input=FILE.encode()).output)

    def test_format_name(self) -> None:
        """A queue that exists may be named by its format name, and is then the same as under its path."""
        name = self.call("GET", resource("queues", ORDERS)).json["format_name"].lower()
        table = f"[[queue]]\npath = '{name.replace('private=', 'PRIVATE=')}'\nquota = 7\n"
        self.assertEqual(self.apply(table), [("change", ORDERS, "quota", None, 7)])
        self.assert_wrong(table + f"[[queue]]\npath = '{ORDERS}'\n", 5, "same queue", "in line 2")

    def test_access(self) -> None:
        """A list of readable rules replaces that of the queue, and is that of a new one from the start."""
        rules = (
            'access = [{ deny = "anonymous", rights = ["send"] }, { allow = "everyone", rights = ["all"] }]\n'
        )
        text = f"[[queue]]\npath = '{ORDERS}'\n{rules}[[queue]]\npath = '.\\private$\\new'\n{rules}"
        found = self.apply(text)
        self.assertEqual(
            [row[:3] for row in found],
            [("change", ORDERS, "security"), ("create", ".\\private$\\new", "security")],
        )
        lists = [self.call("GET", resource("queues", path, "acl")).json for path in self.paths()]
        self.assertEqual(lists[0]["entries"], lists[1]["entries"])
        self.assertEqual([entry["action"] for entry in lists[0]["entries"]], ["deny", "allow"])
        self.assertEqual(self.apply(text), [])
        sddl = f"[[queue]]\npath = '{ORDERS}'\nsecurity = 'D:(A;;GA;;;WD)'\n"
        self.assertEqual(len(self.apply(sddl)), 1)
        self.assertEqual(self.apply(sddl), [])

    def test_prune(self) -> None:
        """Queues that the file does not name are deleted after a question, with messages only by force."""
        self.make_queue("old")
        named = f"[[queue]]\npath = '{ORDERS}'\n"
        self.assert_ended(["apply", self.write(named), "--prune"], 2, "--yes")
        self.assertEqual(len(self.apply(named, "--prune", "--dry-run")), 1)
        self.put(b"1")
        self.assert_wrong("", None, ORDERS, "holds 1 message(s)", "--force", options=("--prune", "--yes"))
        self.assertEqual(self.apply(named, "--prune", "--yes")[0][:2], ("delete", ".\\private$\\old"))
        self.apply("", "--prune", "--force", "--yes")
        self.assertEqual(self.paths(), [])

    def test_a_message_that_comes_meanwhile(self) -> None:
        """The server deletes a queue without force only if it is still empty."""
        self.put(b"1")
        answer = self.call("DELETE", resource("queues", ORDERS), if_empty="true")
        self.assert_refused(answer, 400, "MQ_ERROR_ILLEGAL_OPERATION", "holds 1 message(s)")
        self.assertEqual(self.paths(), [ORDERS])

    def test_partial_failure(self) -> None:
        """A refusal in between names the line, the queue and what was done before."""
        text = "[[queue]]\npath = '.\\private$\\a'\n[[queue]]\npath = 'PUBLIC\\b'\n"
        name = self.write(text.replace("PUBLIC", "."))
        ended = self.msmq("apply", name, "--json")
        self.assertEqual((ended.status, len(ended.objects)), (1, 1))
        self.assertIn(f"{name}:3: .\\b: ", ended.errors)
        self.assertIn("done before: created .\\private$\\a", ended.errors)

    def test_half_a_change(self) -> None:
        """The properties of a queue that are set before its list is refused are printed, and named."""
        commit = self.disk.commit

        def only_once(changes: Sequence[Change]) -> Deferred[None]:
            done = commit(changes)
            self.disk.is_broken = True
            return done

        text = f"[[queue]]\npath = '{ORDERS}'\nlabel = 'Orders'\nsecurity = 'D:(A;;0x4;;;WD)'\n"
        self.patch(self.disk, "commit", only_once)
        ended = self.msmq("apply", self.write(text), "--json")
        self.assertEqual(self.call("GET", resource("queues", ORDERS)).json["label"], "Orders")
        self.assertEqual(([row["key"] for row in ended.objects], ended.status), (["label"], 1))
        self.assertIn(f"done before: changed {ORDERS} (label)", ended.errors)

    def test_export(self) -> None:
        """The printed file brings another server to the same, and this one to no difference."""
        self.apply(FILE)
        self.make_queue("odd", label='it\'s "odd"\\\t\u20ac', application_type=self.service.model.identifier)
        self.msmq("acl", "deny", "anonymous", ORDERS, "send")
        exported = self.msmq("apply", "--export")
        self.assertIn('{ deny = "S-1-5-7", rights = ["send"] },', exported.output)
        self.assertEqual(self.apply(exported.output, "--prune", "--yes"), [])
        before = self.call("GET", "/v1/queues").json
        self.apply("", "--prune", "--force", "--yes")
        self.apply(exported.output)
        after = self.call("GET", "/v1/queues").json
        for each in (*before, *after):
            del each["identifier"], each["format_name"]
        self.assertEqual(after, before)
        self.assertEqual(self.msmq("apply", "--export").output, exported.output)

    def test_export_of_a_label_that_is_not_unicode(self) -> None:
        """A label that no TOML file can have is left out, and the file can be read."""
        path = self.make_queue("odd", label="\udcff")
        exported = self.msmq("apply", "--export")
        self.assertIn("\n# label has lone surrogates", exported.output)
        self.assertEqual(self.apply(exported.output), [])
        self.assertEqual(self.call("GET", resource("queues", path)).json["label"], "\udcff")

    def test_export_of_a_queue_without_a_descriptor(self) -> None:
        """One from before access control: the file says so, can be read, and changes nothing."""
        queue = own_queue(self.service.model, ORDERS)
        queue.definition = attrs.evolve(queue.definition, security=b"")
        exported = self.msmq("apply", "--export")
        self.assertIn("\n# it has no security descriptor, so every account has every right", exported.output)
        self.assertEqual(self.apply(exported.output), [])


class WrongFileTests(ApplyTestCase):
    """One line, with the file and the line, and nothing changed."""

    def test_wrong_files(self) -> None:
        """All mistakes are reported before anything is changed."""
        good = "[[queue]]\npath = '.\\private$\\first'\n"
        for text, line, words in (
            ("[[queue]\n", 1, "not TOML"),
            ("[[queues]]\n", 1, "queues: is not a key; did you mean 'queue'?"),
            ("queue = 7\n", 1, "must be tables"),
            ("[[queue]]\nlabel = 'x'\n", 1, "path is missing"),
            (f"{good}quotta = 7\n", 3, "queue.quotta: is not a key; did you mean 'quota'?"),
            (f"{good}quota = 'much'\n", 3, 'must be "none" or a number of KiB, or text with a unit'),
            (f"{good}quota = -1\n", 3, "or from 0 to 4294967295 KiB, not -1"),
            (f"{good}privacy = 'some'\n", 3, "must be none, optional or body, not 'some'"),
            (f"{good}label = '{'x' * 125}'\n", 3, "at most 124 characters"),
            (f"{good}application_type = 'x'\n", 3, "GUID"),
            (f"{good}access = [{{ rights = ['send'] }}]\n", 3, "one of allow and deny"),
            (f"{good}access = [{{ allow = 'everyone' }}]\n", 3, "rights must be an array"),
            (f"{good}access = []\nsecurity = 'D:'\n", 4, "excludes access"),
            (f"{good}access = [{{ allow = 'nobody at all', rights = ['send'] }}]\n", 2, "USER_SID"),
            (f"{good}access = [{{ allow = 'everyone', rights = ['sing'] }}]\n", 2, "sing"),
            (f"{good}[[queue]]\npath = '.\\PRIVATE$\\First'\n", 4, "same queue"),
            (f"{good}[[queue]]\npath = 'BETA\\private$\\x'\n", 4, "BETA"),
            (f"{good}[[queue]]\npath = '{ORDERS};journal'\n", 4, "journal"),
            (f"{good}[[queue]]\npath = '{ORDERS}'\ntransactional = true\n", 5, "cannot be changed"),
        ):
            self.assert_wrong(text, line, words)

    def test_missing_file(self) -> None:
        """It is named, with the reason."""
        self.assert_ended(["apply", "nosuch.toml"], 1, "nosuch.toml: cannot be read: No such file")

    def test_options(self) -> None:
        """Options that contradict each other are wrong usage."""
        for options in ([], ["x", "--export"], ["--export", "--prune"], ["x", "--force"]):
            self.assert_ended(["apply", *options], 2, "msmq")
