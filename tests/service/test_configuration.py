"""Tests of reading the configuration file and the options."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.net.endpoints import DatagramEndpoint
from msmq.quantities import DURATION_FORM, decimal
from msmq.service.configuration import (
    ConfigurationError,
    ConfigurationProblem,
    Overrides,
    check,
    load,
)
from msmq.service.keys import TABLES
from msmq.settings import SessionSettings
from msmq.toml.value_kinds import Seconds, Size, WholeNumber

PROJECT = Path(__file__).resolve().parent.parent.parent

SITE = UUID("11111111-2222-3333-4444-555555555555")

WHOLE = f"""
[queue_manager]
name = "ALPHA"
dns_name = "alpha.example.com"
data = "/var/lib/msmq"
routing_server = true
is_server = true
sites = ["{SITE}", "{{{SITE}}}"]
enterprise = "{SITE}"
connected_networks = ["{SITE}"]
ping_before_session = true
session_port = 1802
ping_port = 3528

[listen]
session = "tcp:1802:interface=127.0.0.2"
ping = "udp:3528:interface=127.0.0.2"
discovery = "off"
control = "unix:{{data}}/control.sock"
web = "off"

[storage]
backend = "memory"

[directory]
backend = "none"

[hosts]
BETA = "127.0.0.3"
"gamma.example.com" = "127.0.0.4:1802"

[control_servers]
HQ = "ssl:hq.example.com:1843:caFile=/ca.pem"
"branch.example.com" = "unix:/run/branch.sock"

[limits]
quota = 1000
window_size = 8

[timers]
session_retry = 0.5
ack_wait_timeout = 30
connect = 3

[security]
hardened = true
"""


class ReadingTestCase(SynchronousTestCase):
    """Files that are read."""

    def write(self, text: str | bytes) -> str:
        path = str(self.mktemp())
        Path(path).write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def problems(self, text: str | bytes) -> list[tuple[int | None, str, str]]:
        return [(problem.line, problem.key, problem.problem) for problem in check(self.write(text))]


class LoadTests(ReadingTestCase):
    def test_reads_every_table(self) -> None:
        """Every table of the file takes effect."""
        configuration = load(self.write(WHOLE))
        queue_manager = configuration.queue_manager
        self.assertEqual(
            (queue_manager.name, queue_manager.dns_name, str(queue_manager.data)),
            ("ALPHA", "alpha.example.com", "/var/lib/msmq"),
        )
        self.assertTrue(queue_manager.routing_server)
        self.assertEqual(queue_manager.sites, (SITE, SITE))
        self.assertEqual((queue_manager.enterprise, queue_manager.connected_networks), (SITE, (SITE,)))
        listen = configuration.listen
        assert listen.session is not None
        self.assertEqual((listen.session.port, listen.session.interface), (1802, "127.0.0.2"))
        self.assertEqual(listen.ping, DatagramEndpoint(3528, "127.0.0.2"))
        self.assertIsNone(listen.discovery)
        self.assertEqual(str(listen.control), "/var/lib/msmq/control.sock")
        self.assertEqual(configuration.hosts, {"BETA": "127.0.0.3", "gamma.example.com": "127.0.0.4:1802"})
        self.assertEqual(
            configuration.control_servers,
            {"HQ": "ssl:hq.example.com:1843:caFile=/ca.pem", "branch.example.com": "unix:/run/branch.sock"},
        )
        self.assertEqual(configuration.limits.quota, 1000)
        self.assertEqual(configuration.timers.connect, 3.0)
        self.assertTrue(configuration.security.hardened)
        self.assertEqual(
            configuration.session,
            SessionSettings(
                window_size=8,
                session_retry=0.5,
                session_cleanup=120.0,
                ack_wait_timeout=30.0,
                is_server=True,
                ping_before_session=True,
                session_port=1802,
                ping_port=3528,
            ),
        )

    def test_starts_without_a_file(self) -> None:
        """No configuration is required: the server listens on loopback and uses C{./msmq-data}.

        MQQB-1.9-01, MQQB-2.1.1-01, MQQB-2.1.1-02: it listens on the assigned port, and dials it.
        """
        configuration = load()
        data = Path.cwd() / "msmq-data"
        self.assertEqual(configuration.queue_manager.data, data)
        self.assertEqual(configuration.queue_manager.name, socket.gethostname().partition(".")[0])
        self.assertEqual(str(configuration.listen.session), "TCP 127.0.0.1:1801")
        self.assertEqual(configuration.session.session_port, 0x0709)
        self.assertEqual(str(configuration.listen.ping), "UDP 127.0.0.1:3527")
        self.assertEqual(str(configuration.listen.discovery), "UDP 127.0.0.1:1801")
        self.assertEqual(configuration.listen.control, data / "control.sock")
        self.assertEqual((configuration.storage, configuration.directory), ("log", "none"))
        self.assertEqual(configuration.session, SessionSettings(window_size=256))

    def test_cleans_up_sooner_on_a_routing_server(self) -> None:
        """[MS-MQQB] note 44: the Session Cleanup Timer is 120 seconds on a routing server."""
        routing = "[queue_manager]\nrouting_server = true\n"
        self.assertEqual(load(self.write(routing)).session.session_cleanup, 120.0)
        self.assertEqual(
            load(self.write(routing + "[timers]\nsession_cleanup = 7\n")).session.session_cleanup, 7.0
        )

    def test_an_option_wins_over_the_file(self) -> None:
        """C{--name}, C{--data}, C{--storage} and C{--directory} replace what the file says."""
        configuration = load(
            self.write(WHOLE),
            Overrides(data="/tmp/else", name="OMEGA", storage="sqlite:x", directory="none"),
        )
        self.assertEqual(configuration.queue_manager.name, "OMEGA")
        self.assertEqual(configuration.queue_manager.dns_name, "alpha.example.com")
        self.assertEqual(str(configuration.queue_manager.data), "/tmp/else")
        self.assertEqual(str(configuration.listen.control), "/tmp/else/control.sock")
        self.assertEqual((configuration.storage, configuration.directory), ("sqlite:x", "none"))

    def test_a_given_name_is_the_dns_name_too(self) -> None:
        """Two queue managers of one host that are given names do not share the host's DNS name."""
        queue_manager = load(None, Overrides(name="BETA")).queue_manager
        self.assertEqual((queue_manager.name, queue_manager.dns_name), ("BETA", "BETA"))

    def test_an_address_replaces_the_interfaces(self) -> None:
        """C{--address} moves session, ping and discovery, keeps the ports, and leaves what is off."""
        listen = load(self.write(WHOLE), Overrides(address="127.0.0.9")).listen
        self.assertEqual(str(listen.session), "TCP 127.0.0.9:1802")
        self.assertEqual(str(listen.ping), "UDP 127.0.0.9:3528")
        self.assertIsNone(listen.discovery)
        listen = load(None, Overrides(address="::1")).listen
        self.assertEqual(str(listen.session), "TCP [::1]:1801")
        self.assertEqual(str(listen.discovery), "UDP [::1]:1801")

    def test_refuses_a_wrong_option(self) -> None:
        """An option that cannot be used is named."""
        with self.assertRaises(ConfigurationError) as caught:
            load(
                None,
                Overrides(name="A B", address="localhost", data="", storage="rocks", directory="files:x"),
            )
        self.assertEqual(
            str(caught.exception).splitlines(),
            [
                "--name: must not contain ' '; letters, digits, '-', '_' and '.' are allowed",
                "--storage: cannot be used: storage 'rocks': unknown store 'rocks'; known are: log, "
                "memory, postgresql, sqlite",
                "--directory: cannot be used: directory 'files:x': unknown directory 'files'; "
                "known are: file, ldap, ldaps, none",
                "--data: must be the path of a directory",
                "--address: must be an IP address, not 'localhost'",
            ],
        )

    def test_reports_every_problem(self) -> None:
        """Unknown keys and tables, wrong types and values out of range are all reported, with their lines."""
        self.assertEqual(
            self.problems(
                "[limits]\n"
                "quotta = 5\n"
                "quota = -1\n"
                "window_size = 8.5\n"
                "\n"
                "[timers]\n"
                "session_retry = 'soon'\n"
                "connect = nan\n"
                "linger = true\n"
                "[queue_manager]\n"
                "sites = [\n"
                "  'x',\n"
                "  5,\n"
                "]\n"
                "enterprise = 7\n"
                "routing_server = 1\n"
                "name = ''\n"
                "[listen]\n"
                "session = 'tcp:x'\n"
                "ping = 'tcp:1'\n"
                "control = 'tcp:1'\n"
                "web = 2024-01-01\n"
                "[storage]\n"
                "backend = 'rocks'\n"
                "[extra.table]\n"
                "x = 1\n"
            ),
            [
                (2, "limits.quotta", "is not a key of [limits]; did you mean 'quota'?"),
                (3, "limits.quota", "must be from 1 to 4294967295 KiB, not -1"),
                (4, "limits.window_size", "must be a whole number, not a number"),
                (7, "timers.session_retry", f"must be a number of seconds, or {DURATION_FORM}, not 'soon'"),
                (8, "timers.connect", "must be from 0.1 to 300 seconds, not nan"),
                (9, "timers.linger", f"must be a number of seconds, or {DURATION_FORM}, not true or false"),
                (12, "queue_manager.sites[0]", "must be a GUID, not 'x'"),
                (13, "queue_manager.sites[1]", "must be a GUID as text, not a whole number"),
                (15, "queue_manager.enterprise", "must be a GUID as text, not a whole number"),
                (16, "queue_manager.routing_server", "must be true or false, not a whole number"),
                (17, "queue_manager.name", "must have 1 to 255 characters, not 0"),
                (19, "listen.session", "names the port 'x', which is not a number from 0 to 65535"),
                (20, "listen.ping", "must be udp:PORT or udp:PORT:interface=IP, not 'tcp:1'"),
                (21, "listen.control", "must be unix:PATH or \"off\", not 'tcp:1'"),
                (22, "listen.web", "must be text, not a date or time"),
                (
                    24,
                    "storage.backend",
                    "cannot be used: storage 'rocks': unknown store 'rocks'; known are: log, memory,"
                    " postgresql, sqlite",
                ),
                (25, "extra", "is not a table of the configuration"),
            ],
        )

    def test_an_archive(self) -> None:
        """Its directory may be in the data directory; a store in memory has none."""
        text = '[queue_manager]\ndata = "/data"\n[archive]\ndirectory = "{data}/archive"\n'
        path = self.mktemp()
        more = 'streams = ["events"]\nqueues = ["ord*"]\nkeep_days = 30\nlate = 60\n'
        Path(path).write_text(text + more)
        found = load(path).archive
        self.assertEqual((Path("/data/archive"), ("events",)), (found.directory, found.streams))
        self.assertEqual((("ord*",), 30, 60.0), (found.queues, found.keep_days, found.late))
        self.assertIsNone(load(None).archive.directory)
        self.assertEqual(
            self.problems(
                "[archive]\n"
                "directory = 'x'\n"
                "streams = ['log', 'queue']\n"
                "keep_days = -1\n"
                "queues = ['']\n"
                "[storage]\n"
                "backend = 'memory'\n"
            ),
            [
                (
                    2,
                    "archive.directory",
                    "needs a store that another process can read: log, sqlite or postgresql, not memory",
                ),
                (
                    3,
                    "archive.streams[1]",
                    'must be "log", "journal", "source_journal", "dead_letter", '
                    '"dead_letter_transactional" or "events", not \'queue\'',
                ),
                (4, "archive.keep_days", "must be from 0 to 36500, not -1"),
                (5, "archive.queues[0]", "must be the path of a queue, of at most 500 characters"),
            ],
        )
        self.assertEqual(
            [(2, "archive.streams", "names no stream")], self.problems("[archive]\nstreams=[]\n")
        )
        [(line, key, problem)] = self.problems("[archive]\ndirectory = '{data}'\n")
        self.assertEqual((2, "archive.directory"), (line, key))
        self.assertIn("is the data directory; select another one, such as", problem)

    def test_refuses_values_that_contradict_each_other(self) -> None:
        """The least wait for a recoverable acknowledgement is not more than the greatest."""
        self.assertEqual(
            self.problems("[timers]\nrecoverable_ack_maximum = 1\nrecoverable_ack_minimum = 2\n"),
            [(3, "timers.recoverable_ack_minimum", "is 2, more than recoverable_ack_maximum, 1")],
        )

    def test_refuses_control_servers_that_cannot_be(self) -> None:
        """A C{[control_servers]} entry that no command could use is reported with its line."""
        problems = self.problems(
            "[control_servers]\n"
            'HQ = "ssl:hq:1843"\n'
            'hq = "ssl:hq:1844"\n'
            'BETA = "tcp:beta.example.com:1843"\n'
            'GAMMA = "ssl:gamma:1843:tokenFile=/t"\n'
            "DELTA = 1843\n"
            '"a b" = "ssl:a:1"\n'
            'EPSILON = "ssl:epsilon"\n'
        )
        self.assertEqual(
            [(line, key) for line, key, _ in problems],
            [
                (3, "control_servers.hq"),
                (4, "control_servers.BETA"),
                (5, "control_servers.GAMMA"),
                (6, "control_servers.DELTA"),
                (7, "control_servers.a b"),
                (8, "control_servers.EPSILON"),
            ],
        )
        for (_, _, problem), word in zip(
            problems,
            ("same queue manager", "token", "tokenFile", "text", "letters", "HOST:PORT"),
            strict=True,
        ):
            self.assertIn(word, problem)

    def test_refuses_hosts_that_lead_nowhere(self) -> None:
        """A C{[hosts]} entry that cannot be connected to is reported with its line."""
        problems = self.problems(
            "[hosts]\n"
            "BETA = '127.0.0.2:99999'\n"
            "beta = '127.0.0.2'\n"
            "gamma.example.com = '127.0.0.2'\n"
            "DELTA = 'delta.example.com'\n"
            "'127.0.0.5' = '[::1]:1802'\n"
            "'a b' = '127.0.0.1'\n"
        )
        self.assertEqual(
            [(line, key) for line, key, _ in problems],
            [(2, "hosts.BETA"), (3, "hosts.beta"), (4, "hosts.gamma"), (5, "hosts.DELTA"), (7, "hosts.a b")],
        )
        self.assertIn("99999", problems[0][2])
        self.assertEqual(problems[1][2], "is the same host as 'BETA', which the table names too")
        self.assertIn("a name with dots needs quotes", problems[2][2])

    def test_refuses_too_long_a_socket_path(self) -> None:
        """A data directory whose socket path is too long for Linux is refused by name."""
        data = "/tmp/" + "d" * 110
        [problem] = check(self.write(f"[queue_manager]\ndata = '{data}'\n"))
        self.assertEqual(problem.key, "listen.control")
        self.assertIn(f"{data}/control.sock", problem.problem)
        self.assertIn("107", problem.problem)

    def test_syntax_error_has_its_line(self) -> None:
        """A file that is not TOML is reported with the line."""
        [(line, key, problem)] = self.problems("[limits]\nquota = 1\nquota == 2\n")
        self.assertEqual((line, key), (3, ""))
        self.assertTrue(problem.startswith("is not TOML: "), problem)
        [(line, _, problem)] = self.problems("[limits]\nquota = '''\n\n")
        self.assertEqual(line, 4)

    def test_text_that_is_not_utf_8_has_its_line(self) -> None:
        """A file in another encoding is reported with the line."""
        self.assertEqual(self.problems(b"[limits]\n# caf\xe9\n"), [(2, "", "is not UTF-8")])

    def test_a_file_that_cannot_be_read_is_named(self) -> None:
        """A missing file is reported by name."""
        [problem] = check("/nonexistent/msmq.toml")
        self.assertEqual(str(problem), "/nonexistent/msmq.toml: cannot be read: No such file or directory")

    def test_survives_deep_nesting(self) -> None:
        """A file of nothing but brackets is refused."""
        self.assertEqual(len(self.problems("a = " + "[" * 100_000)), 1)

    def test_a_problem_reads_as_file_line_key_and_problem(self) -> None:
        """Each problem is one line that says where to look."""
        self.assertEqual(
            str(ConfigurationProblem("msmq.toml", 12, "limits.quota", "must be text")),
            "msmq.toml:12: limits.quota: must be text",
        )

    @given(st.text(st.sampled_from("[]{}=\"'.,# \n0123456789abcdefghilmoqrstu_"), max_size=60))
    def test_any_text_is_loaded_or_refused(self, text: str) -> None:
        """Any text results in a configuration or in a list of its problems."""
        try:
            load(self.write(text))
        except ConfigurationError as error:
            self.assertTrue(error.problems)

    @given(
        st.sampled_from([(table, key) for table, keys in TABLES.items() for key in keys]),
        st.sampled_from(
            [
                "0",
                "-1",
                "1.5",
                "true",
                "''",
                "'x'",
                "[]",
                "[1]",
                "{}",
                "{ x = 1 }",
                "1979-05-27",
                "inf",
                "1e99",
            ]
        ),
    )
    def test_any_value_of_any_key_is_loaded_or_refused_by_its_name(
        self, key: tuple[str, str], value: str
    ) -> None:
        """A value that a key does not take is reported with the key and its line."""
        for problem in check(self.write(f"[{key[0]}]\n\n{key[1]} = {value}\n")):
            self.assertEqual((problem.line, problem.key.partition("[")[0]), (3, ".".join(key)))


class DocumentationTests(SynchronousTestCase):
    def test_every_key_is_documented(self) -> None:
        """docs/configuration.md has a row for each key with its type, unit, range and default."""
        lines = (PROJECT / "docs" / "configuration.md").read_text().splitlines()
        rows: dict[str, list[str]] = {}
        table = ""
        for line in lines:
            if line.startswith("## `["):
                table = line[5:-2]
            elif line.startswith("| `") and table not in ("hosts", "control_servers", "[bridge]", "[shadow]"):
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                rows[f"{table}.{cells[0].strip('`')}"] = cells[1:]
        expected = {
            f"{name}.{key}": [row.kind.type_name, row.unit, row.kind.range_text, _default_text(row.default)]
            for name, keys in TABLES.items()
            for key, row in keys.items()
        }
        self.assertEqual({key: cells[:4] for key, cells in rows.items()}, expected)
        self.assertTrue(all(len(cells) == 5 and cells[4] for cells in rows.values()))

    def test_every_session_setting_has_a_key(self) -> None:
        """Every setting that [MS-MQQB] leaves to configuration has a key."""
        keys = {key for table in ("queue_manager", "limits", "timers", "security") for key in TABLES[table]}
        self.assertEqual(set(attrs.fields_dict(SessionSettings)) - keys, set())

    def test_every_default_is_within_its_range(self) -> None:
        """Writing a default into the file changes nothing."""
        for keys in TABLES.values():
            for name, key in keys.items():
                if isinstance(key.kind, WholeNumber | Seconds | Size):
                    self.assertEqual(key.kind.read(key.default), key.default, name)

    def test_the_example_loads(self) -> None:
        """examples/msmq.toml has no problem and, apart from its names, says what holds anyway."""
        configuration = load(os.fspath(PROJECT / "examples" / "msmq.toml"))
        self.assertEqual(configuration.session, SessionSettings(window_size=256))
        self.assertEqual(configuration.limits, load().limits)
        self.assertEqual(configuration.timers, load().timers)


def _default_text(default: object) -> str:
    match default:
        case None:
            return ""
        case bool():
            return f"`{str(default).lower()}`"
        case str():
            return f'`"{default}"`'
        case tuple():
            return f"`{json.dumps(default)}`"
        case _:
            return f"`{decimal(default) if isinstance(default, float) else default}`"
