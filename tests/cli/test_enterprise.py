"""The verbs about an enterprise, on a file without a server."""

from __future__ import annotations

from pathlib import Path

from tests.cli.support import CommandTestCase
from tests.directory.test_enterprise_file import ALPHA, WHOLE

PEOPLE = WHOLE[: WHOLE.index("[[user]]")]
ESTATE = (
    PEOPLE
    + """
[[site]]
name = "Rome"
id = "{00000000-0000-0000-0000-0000000000c0}"
[[link]]
sites = ["Paris", "Rome"]
cost = 2
gates = ["GAMMA", "OMEGA"]
[[queue_manager]]
name = "OMEGA"
id = "00000000-0000-0000-0000-0000000000d7"
sites = ["Rome"]
routing_server = true
[[queue_manager]]
name = "PSI"
id = "00000000-0000-0000-0000-0000000000e1"
sites = ["Rome"]
"""
)


class EnterpriseTests(CommandTestCase):
    """An enterprise of three sites in a row."""

    def setUp(self) -> None:
        self.file = self.mktemp()
        Path(self.file).write_text(ESTATE)

    def test_check(self) -> None:
        """A file without faults is reported as such, and advice does not make it bad."""
        ended = self.msmq("enterprise", "check", self.file)
        self.assertEqual((ended.status, ended.errors), (0, ""))
        self.assertTrue(ended.output.endswith(f"{self.file}: no problems found\n"), ended.output)

    def test_check_with_faults(self) -> None:
        """Each fault is a line, or an object, and the first is on standard error."""
        path = self.mktemp()
        Path(path).write_text(ESTATE.replace("cost = 2", "cost = 0").replace('"OMEGA"]', '"OMGEA"]'))
        ended = self.msmq("enterprise", "check", path, "--json")
        self.assertEqual(ended.status, 1)
        faults = [each for each in ended.objects if each["is_fault"]]
        self.assertEqual(set(faults[0]), {"path", "line", "key", "problem", "is_fault"})
        keys = [each["key"] for each in faults]
        self.assertIn("link[2].cost", keys)
        self.assertIn("link[2].gates[2]", keys)
        self.assertIn(f"msmq enterprise check: {path}:{faults[0]['line']}: ", ended.errors)

    def test_names_are_harmless_to_a_terminal(self) -> None:
        """The name of a site cannot clear the screen of a reader: tables, drawing, errors."""
        path = self.mktemp()
        Path(path).write_text(ESTATE.replace('"Rome"', '"Rome\\u001b[2J"'))
        for arguments in (("topology",), ("topology", "--format", "dot"), ("route", "ALPHA", "OMEGA")):
            ended = self.msmq(*arguments, "--enterprise", path)
            self.assertEqual(ended.status, 0, ended.errors)
            self.assertNotIn("\x1b", ended.output)
        self.assertIn(
            'label="Rome\\x1b[2J"', self.msmq("topology", "--format", "dot", "--enterprise", path).output
        )
        ended = self.msmq("route", "ALPHA", "\x1b[2J\n", "--enterprise", path)
        self.assertEqual((ended.status, ended.errors.count("\n")), (1, 1))
        self.assertNotIn("\x1b", ended.errors)

    def test_route(self) -> None:
        """Hops with their costs, and the reason of each; by name, by qualified name or by GUID."""
        for source in ("ALPHA", "alpha.example.com", str(ALPHA)):
            ended = self.msmq("route", source, "psi", "--enterprise", self.file, "--json")
            self.assertEqual((ended.status, ended.errors), (0, ""))
            [answer] = ended.objects
            self.assertEqual((answer["source"], answer["destination"], answer["cost"]), ("ALPHA", "PSI", 9))
            self.assertEqual([hop["name"] for hop in answer["hops"]], ["BETA", "GAMMA", "OMEGA", "PSI"])
            self.assertEqual([hop["total"] for hop in answer["hops"]], [0, 7, 9, 9])
            self.assertIn("out-routing servers", answer["hops"][0]["reason"])
        table = self.msmq("route", "ALPHA", "PSI", "--enterprise", self.file)
        self.assertEqual(len(table.output.splitlines()), 5)

    def test_route_while_a_gate_is_down(self) -> None:
        """A message that waits is status 1: where, for which gate, and why the backup is not used."""
        path = self.mktemp()
        backup = """
[[site]]
name = "Bonn"
id = "00000000-0000-0000-0000-0000000000cb"
[[link]]
sites = ["Berlin", "Bonn"]
cost = 1
gates = ["BETA", "THETA"]
[[link]]
sites = ["Bonn", "Rome"]
cost = 30
gates = ["THETA", "OMEGA"]
[[queue_manager]]
name = "THETA"
id = "00000000-0000-0000-0000-0000000000eb"
sites = ["Bonn"]
routing_server = true
"""
        Path(path).write_text(ESTATE + backup)
        ended = self.msmq("route", "ALPHA", "PSI", "--enterprise", path, "--down", "gamma", "--json")
        self.assertEqual((ended.status, ended.objects[0]["waits_at"]), (1, "BETA"))
        self.assertEqual([hop["name"] for hop in ended.objects[0]["hops"]], ["BETA"])
        self.assertEqual(
            ended.objects[0]["problem"],
            "the message waits at BETA for GAMMA; THETA is not an alternate, because it is farther from PSI"
            " (10) than BETA is (9)",
        )
        ended = self.msmq("route", "PSI", "ALPHA", "--enterprise", path, "--down", "GAMMA")
        self.assertEqual((ended.status, ended.errors), (0, ""))
        self.assertIn("THETA is nearer to ALPHA (1) than OMEGA is (9)", ended.output)
        self.assert_refused(
            ("route", "ALPHA", "PSI", "--enterprise", path, "--down", "NOBODY"),
            1,
            "MQ_ERROR_MACHINE_NOT_FOUND",
            "NOBODY",
        )
        ended = self.msmq("enterprise", "check", path)
        self.assertEqual(ended.status, 0)
        self.assertRegex(ended.output, ":[0-9]+: link Berlin - Bonn: cannot be used as a backup for messages")

    def test_no_route(self) -> None:
        """An incomplete route is reported, with its reason, and so is an unknown destination."""
        self.assert_refused(
            ("route", "ALPHA", "NOBODY", "--enterprise", self.file), 1, "MQ_ERROR_MACHINE_NOT_FOUND", "NOBODY"
        )
        path = self.mktemp()
        Path(path).write_text(Path(self.file).read_text().replace('gates = ["GAMMA", "OMEGA"]', ""))
        ended = self.msmq("route", "ALPHA", "PSI", "--enterprise", path)
        self.assertEqual(ended.status, 1)
        self.assertIn("no site gate", ended.errors)

    def test_route_to_itself(self) -> None:
        """There is nothing to do."""
        ended = self.msmq("route", "ALPHA", "ALPHA", "--enterprise", self.file)
        self.assertEqual((ended.status, ended.output), (0, "ALPHA has the message already\n"))

    def test_topology(self) -> None:
        """All of it as one object, as tables, and for Graphviz."""
        [answer] = self.msmq("topology", "--enterprise", self.file, "--json").objects
        self.assertEqual([site["name"] for site in answer["sites"]], ["Berlin", "Paris", "Rome"])
        self.assertEqual([link["cost"] for link in answer["links"]], [7, 2])
        self.assertEqual(len(answer["queue_managers"]), 5)
        text = self.msmq("topology", "--enterprise", self.file).output
        for word in ("Berlin", "GAMMA", "127.0.0.2"):
            self.assertIn(word, text)

    def test_graphviz(self) -> None:
        """It is a graph with a box for each site, and a labelled line for each link."""
        drawing = self.msmq("topology", "--enterprise", self.file, "--format", "dot").output
        for word in ("Berlin", "OMEGA", "7 via BETA, GAMMA"):
            self.assertIn(word, drawing)
        self.assertEqual(drawing.count("{"), drawing.count("}"))
        self.assertTrue(drawing.startswith("graph enterprise {"))

    def test_file_with_faults(self) -> None:
        """The command refuses to compute routes from it."""
        path = self.mktemp()
        Path(path).write_text("")
        for verb in (("route", "A", "B"), ("topology",)):
            self.assert_refused(
                (*verb, "--enterprise", path), 1, "MQ_ERROR_DS_ERROR", "has no table [enterprise]"
            )
