"""Enterprises that are described in a TOML file: what is read, and what is wrong, with its line."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.enterprise_file import (
    EnterpriseFileError,
    FileProblem,
    check_enterprise,
    load_enterprise,
)
from msmq.directory.enterprise_tables import TABLES
from msmq.membership.objects import (
    NO_KEYS,
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
    RoutingLinkObject,
    SiteObject,
    UserObject,
)
from msmq.testing.ciphers import MemoryCiphers
from msmq.wire.sid import parse_sid

BERLIN, PARIS = UUID("00000000-0000-0000-0000-0000000000b0"), UUID("00000000-0000-0000-0000-0000000000a0")
ALPHA, BETA, GAMMA = (UUID(int=number) for number in (0xA1, 0xB1, 0xC1))
NETWORK = UUID(int=0xD1)
SID = "S-1-5-21-1-2-3-1000"

WHOLE = f"""
[enterprise]
id = "00000000-0000-0000-0000-0000000000ee"

[[site]]
name = "Berlin"
id = "{BERLIN}"
[[site]]
name = "Paris"
id = "{{{PARIS}}}"
foreign = true

[[link]]
sites = ["Berlin", "{PARIS}"]
cost = 7
gates = ["beta", "GAMMA"]

[[queue_manager]]
name = "ALPHA"
id = "{ALPHA}"
dns_name = "alpha.example.com"
address = "127.0.0.2"
sites = ["berlin"]
out_routing_servers = ["BETA"]
connected_networks = ["{NETWORK}"]
[[queue_manager]]
name = "BETA"
id = "{BETA}"
sites = ["Berlin"]
routing_server = true
connected_networks = ["{NETWORK}"]
[[queue_manager]]
name = "GAMMA"
id = "{GAMMA}"
sites = ["Paris"]
routing_server = true

[[queue]]
path = 'ALPHA\\orders'
id = "00000000-0000-0000-0000-00000000000f"

[[user]]
sid = "{SID}"
certificates = ["one.pem", "two.der"]
"""
ACCOUNTS = """
[[user]]
sid = "S-1-5-21-1-2-3-1001"
name = "alice"
groups = ["Clerks", "S-1-5-32-545"]
[[group]]
sid = "S-1-5-21-1-2-3-2001"
name = "clerks"
groups = ["S-1-5-21-1-2-3-2002", "staff", "clerks"]
[[group]]
sid = "S-1-5-21-1-2-3-2002"
name = "staff"
groups = ["clerks"]
"""


def certificate_with(subject: bytes) -> bytes:
    """A certificate in DER, as far as an enterprise file looks at it."""
    name = bytes([0x30, len(subject)]) + subject
    content = b"\xa0\x03\x02\x01\x02\x02\x01\x01\x30\x00\x30\x00\x30\x00" + name
    return bytes([0x30, len(content) + 2, 0x30, len(content)]) + content


CERTIFICATES = {"one.pem": certificate_with(b"one"), "two.der": certificate_with(b"two")}


def keyed(text: str) -> str:
    """The file, with these keys of ALPHA."""
    return WHOLE.replace('name = "ALPHA"\n', f'name = "ALPHA"\nencryption_keys = "{text}"\n', 1)


class EnterpriseFileTests(SynchronousTestCase):
    """Common parts of the tests."""

    def written(self, text: str) -> Path:
        directory = Path(self.mktemp())
        directory.mkdir()
        path = directory / "estate.toml"
        path.write_text(text, encoding="utf-8")
        (directory / "one.pem").write_text(ssl.DER_cert_to_PEM_cert(CERTIFICATES["one.pem"]))
        (directory / "two.der").write_bytes(CERTIFICATES["two.der"])
        return path

    def problems(self, text: str) -> list[FileProblem]:
        return check_enterprise(self.written(text))


class ReadingTests(EnterpriseFileTests):
    """A file in which nothing is wrong."""

    def test_objects(self) -> None:
        """Each thing becomes the object of a directory; names and GUIDs refer to the same things."""
        file = load_enterprise(self.written(WHOLE))
        self.assertEqual(file.advice, ())
        enterprise, berlin, paris, link, alpha, beta, _, queue, user = file.objects
        assert isinstance(enterprise, EnterpriseObject)
        self.assertEqual(enterprise.identifier, UUID(int=0xEE))
        assert isinstance(berlin, SiteObject) and isinstance(paris, SiteObject)
        self.assertEqual((berlin.name, berlin.identifier, berlin.foreign_site), ("Berlin", BERLIN, False))
        self.assertEqual((paris.name, paris.identifier, paris.foreign_site), ("Paris", PARIS, True))
        assert isinstance(link, RoutingLinkObject)
        self.assertEqual(
            (link.site1_identifier, link.site2_identifier, link.actual_cost, link.site_gate_identifier_list),
            (BERLIN, PARIS, 7, (BETA, GAMMA)),
        )
        assert isinstance(alpha, QueueManagerObject) and isinstance(beta, QueueManagerObject)
        self.assertEqual(
            (alpha.computer_name, alpha.qualified_computer_name, alpha.routing_server),
            ("ALPHA", "alpha.example.com", False),
        )
        self.assertEqual(alpha.site_identifier_list, (BERLIN,))
        self.assertEqual(alpha.out_routing_server_identifier_list, (BETA,))
        self.assertEqual(alpha.connected_network_identifier_list, (NETWORK,))
        self.assertEqual((beta.qualified_computer_name, beta.routing_server), ("BETA", True))
        assert isinstance(queue, QueueObject)
        self.assertEqual((queue.pathname, queue.identifier), (r"ALPHA\orders", UUID(int=0xF)))
        assert isinstance(user, UserObject)
        self.assertEqual(user.security_identifier, parse_sid(SID))
        self.assertEqual(
            [each.certificate for each in user.certificates.certificates], list(CERTIFICATES.values())
        )

    def test_encryption_keys(self) -> None:
        """The file has the public encryption keys of a queue manager; without an entry it has none."""
        ciphers = MemoryCiphers("alpha")
        ciphers.open()
        text = base64.b64encode(ciphers.encryption_keys.to_bytes()).decode()
        file = load_enterprise(self.written(keyed(text + "\\n")))
        held = {each.computer_name: each for each in file.objects if isinstance(each, QueueManagerObject)}
        self.assertEqual(held["ALPHA"].public_encryption_key_list, ciphers.encryption_keys)
        self.assertEqual(held["BETA"].public_encryption_key_list, NO_KEYS)

    def test_accounts(self) -> None:
        """Users and groups are in the groups of their groups, in circles too."""
        file = load_enterprise(self.written(WHOLE + ACCOUNTS))
        sids = {account.name: account.sid for account in file.accounts}
        found = {
            account.name: ({name for name, sid in sids.items() if sid in account.groups}, account.is_user)
            for account in file.accounts
        }
        self.assertEqual(
            found,
            {
                SID: (set(), True),
                "alice": ({"clerks", "staff"}, True),
                "clerks": ({"staff"}, False),
                "staff": ({"clerks"}, False),
            },
        )
        [alice] = [account for account in file.accounts if account.name == "alice"]
        self.assertIn(parse_sid("S-1-5-32-545"), alice.groups)

    def test_topology(self) -> None:
        """Routing has all of it, with the lines for what it will say, and the addresses."""
        file = load_enterprise(self.written(WHOLE))
        topology = file.topology
        self.assertEqual(topology.gates(BERLIN), (BETA,))
        self.assertEqual(topology.gates(PARIS), (GAMMA,))
        alpha = topology.queue_manager_named("alpha.example.com")
        assert alpha is not None
        self.assertEqual(
            (alpha.identifier, alpha.address, alpha.where), (ALPHA, "127.0.0.2", "estate.toml:18")
        )
        self.assertEqual(dict(file.addresses), {ALPHA: "127.0.0.2"})

    def test_same_file_again(self) -> None:
        """GUIDs that the file does not give are the same whenever it is read."""
        path = self.written(WHOLE)
        self.assertEqual(load_enterprise(path).objects, load_enterprise(path).objects)


class ProblemTests(EnterpriseFileTests):
    """Files in which something is wrong."""

    def assert_reported(self, text: str, line: int | None, key: str, problem: str) -> None:
        """It is reported, with its line, and the file is refused."""
        path = self.written(text)
        found = check_enterprise(path)
        reported = [(each.line, each.key, each.problem) for each in found if each.is_fault]
        self.assertIn((line, key, problem), reported)
        with self.assertRaises(EnterpriseFileError) as caught:
            load_enterprise(path)
        self.assertEqual(caught.exception.problems, tuple(each for each in found if each.is_fault))

    def changed(self, old: str, new: str) -> str:
        self.assertEqual(WHOLE.count(old), 1, old)
        return WHOLE.replace(old, new)

    def test_cost_out_of_range(self) -> None:
        """A link's cost is 1 to 999999."""
        for cost in (0, -1, 1_000_000):
            self.assert_reported(
                self.changed("cost = 7", f"cost = {cost}"),
                15,
                "link[1].cost",
                f"must be from 1 to 999999, not {cost}",
            )

    def test_unknown_names(self) -> None:
        """An unknown reference is reported, with a suggestion."""
        self.assert_reported(
            self.changed('sites = ["berlin"]', 'sites = ["Berlni"]'),
            23,
            "queue_manager[1].sites[1]",
            "'Berlni' is not a site of this file; did you mean 'berlin'?",
        )
        self.assert_reported(
            self.changed('gates = ["beta", "GAMMA"]', 'gates = ["beta",\n"DELTA"]'),
            17,
            "link[1].gates[2]",
            "'DELTA' is not a queue manager of this file",
        )
        self.assert_reported(
            self.changed('gates = ["beta", "GAMMA"]', 'gates = ["beta",\n"GAMA"]'),
            17,
            "link[1].gates[2]",
            "'GAMA' is not a queue manager of this file; did you mean 'gamma'?",
        )

    def test_unknown_identifiers(self) -> None:
        """An unknown GUID in routing is reported, with its line."""
        unknown_site = UUID(int=0x77)
        self.assert_reported(
            self.changed('sites = ["berlin"]', f'sites = ["{unknown_site}"]'),
            18,
            "",
            f"queue manager ALPHA: belongs to a site {{{unknown_site}}}, which there is not",
        )

    def test_duplicates(self) -> None:
        """Two things never share a GUID, nor two of one kind a name, nor two queues a path."""
        self.assert_reported(
            self.changed(f'id = "{BETA}"', f'id = "{BERLIN}"'),
            28,
            "queue_manager[2].id",
            "is the GUID of site[1] too",
        )
        self.assert_reported(
            self.changed('name = "BETA"', 'name = "alpha"'),
            27,
            "queue_manager[2].name",
            "is the name of another queue manager too",
        )
        more = f"\n[[queue]]\npath = 'alpha\\ORDERS'\nid = \"{UUID(int=0x99)}\"\n"
        self.assert_reported(WHOLE + more, 47, "queue[2].path", "is the path of another queue too")

    def test_missing_keys(self) -> None:
        """A missing key is reported on the line of its table."""
        self.assert_reported(self.changed("cost = 7\n", ""), 13, "link[1]", "needs 'cost'")
        self.assert_reported(
            self.changed('[enterprise]\nid = "00000000-0000-0000-0000-0000000000ee"\n', ""),
            None,
            "",
            "has no table [enterprise]",
        )

    def test_wrong_types(self) -> None:
        """A value of a wrong type is reported."""
        self.assert_reported(
            self.changed("foreign = true", "foreign = 1"),
            11,
            "site[2].foreign",
            "must be true or false, not a whole number",
        )
        self.assert_reported(
            self.changed('gates = ["beta", "GAMMA"]', 'gates = "beta"'),
            16,
            "link[1].gates",
            "must be an array of names or GUIDs, not text",
        )
        self.assert_reported(
            "[site]\nname = 'x'",
            1,
            "site",
            "must be in double brackets, [[site]], since there may be several",
        )

    def test_control_endpoints(self) -> None:
        """Where a queue manager is administered is a control endpoint, without a token."""
        for value, problem in (
            ("hq:1843", "must be a control endpoint as ssl:HOST:PORT, not 'hq:1843'"),
            ("ssl:", "must be a control endpoint as ssl:HOST:PORT, not 'ssl:'"),
            ("ssl:hq:1:tokenFile=t", "must not contain tokenFile; the caller sets the token file"),
        ):
            text = self.changed('address = "127.0.0.2"', f'address = "127.0.0.2"\ncontrol = "{value}"')
            self.assert_reported(text, 23, "queue_manager[1].control", problem)
        text = self.changed('address = "127.0.0.2"', 'address = "127.0.0.2"\ncontrol = "ssl:hq:1"')
        self.assertEqual(load_enterprise(self.written(text)).controls, {ALPHA: "ssl:hq:1"})

    def test_unknown_keys_and_tables(self) -> None:
        """Unknown keys and tables are reported."""
        self.assert_reported(
            self.changed("foreign = true", "foriegn = true"),
            11,
            "site[2].foriegn",
            "is not a key of site; did you mean 'foreign'?",
        )
        self.assert_reported(
            WHOLE + "\n[[sites]]\n", 46, "sites", "is not a table of an enterprise; did you mean 'site'?"
        )

    def test_cycle_of_routing_servers(self) -> None:
        """Routing servers that send by each other are reported, by name."""
        text = self.changed('name = "BETA"', 'name = "BETA"\nout_routing_servers = ["DELTA"]')
        text += f'''
[[queue_manager]]
name = "DELTA"
id = "{UUID(int=0xD2)}"
sites = ["Berlin"]
routing_server = true
out_routing_servers = ["BETA"]
'''
        found = [str(each) for each in self.problems(text) if each.is_fault]
        self.assertTrue(any("BETA" in each and "DELTA" in each for each in found), found)

    def test_nothing_at_all(self) -> None:
        """An empty file has no sites and no queue managers, which is reported too."""
        reported = [each.problem for each in self.problems("")]
        self.assertIn("has no table [enterprise]", reported)
        self.assertTrue(any("has no sites" in each for each in reported), reported)

    def test_links(self) -> None:
        """A link has two ends, and they are not the same site."""
        self.assert_reported(
            self.changed(f'sites = ["Berlin", "{PARIS}"]', 'sites = ["Berlin"]'),
            14,
            "link[1].sites",
            "must name two sites, not 1",
        )
        self.assert_reported(
            self.changed(f'sites = ["Berlin", "{PARIS}"]', 'sites = ["Berlin", "berlin"]'),
            14,
            "link[1].sites[2]",
            "names 'berlin' twice",
        )

    def test_queues(self) -> None:
        """A queue is public, and on a queue manager of the file."""
        self.assert_reported(
            self.changed(r"path = 'ALPHA\orders'", r"path = 'DELTA\orders'"),
            39,
            "queue[1].path",
            "is on DELTA, which is not a queue manager of this file",
        )
        for path in (r".\orders", r"ALPHA\private$\orders"):
            self.assert_reported(
                self.changed(r"path = 'ALPHA\orders'", f"path = '{path}'"),
                39,
                "queue[1].path",
                f"must name a public queue with its computer, such as ALPHA\\orders, not '{path}'",
            )

    def test_encryption_keys(self) -> None:
        """Invalid keys are reported, cut short ones for example."""
        ciphers = MemoryCiphers("alpha")
        ciphers.open()
        whole = ciphers.encryption_keys.to_bytes()
        for text in (
            "",
            "rubbish!",
            *(base64.b64encode(each).decode() for each in (whole[:-1], whole + b"x")),
        ):
            problems = self.problems(keyed(text))
            self.assertTrue(any("keys/encryption-keys.txt" in each.problem for each in problems), text)

    def test_certificates(self) -> None:
        """A certificate that is missing, or invalid, is reported."""
        self.assert_reported(
            self.changed('"two.der"', '"three.der"'),
            44,
            "user[1].certificates[2]",
            "'three.der' cannot be read: No such file or directory",
        )
        self.assert_reported(
            self.changed('"two.der"', '"estate.toml"'),
            44,
            "user[1].certificates[2]",
            "'estate.toml' cannot be read: is neither PEM nor DER",
        )

    def test_accounts(self) -> None:
        """Unknown groups, and values shared by two accounts, are reported."""
        for old, new, place, problem in (
            (
                '"staff", ',
                '"staf", ',
                "groups[2]",
                "'staf' is not a group of this file, nor a SID",
            ),
            ("-3-2001", "-3-1001", "sid", "is the SID of another account too"),
            ('"clerks"\n', '"Alice"\n', "name", "is the name of another account too"),
            ('name = "clerks"\n', "", "", "needs 'name'"),
        ):
            text = WHOLE + ACCOUNTS
            self.assertIn(old, text)
            found = check_enterprise(self.written(text.replace(old, new, 1)))
            reported = [each for each in found if each.key.endswith(place) and problem in each.problem]
            self.assertTrue(reported, found)
            assert reported[0].line is not None
            self.assertGreater(reported[0].line, WHOLE.count("\n"))

    def test_no_toml(self) -> None:
        """A file that is not TOML is reported with the line, and a missing one without."""
        self.assert_reported(
            "[enterprise]\nid = \n", 2, "", "is not TOML: Invalid value in column 6: a value is missing"
        )
        [problem] = check_enterprise(Path(self.mktemp()))
        self.assertEqual((problem.line, problem.problem), (None, "cannot be read: No such file or directory"))

    def test_endless_faults(self) -> None:
        """The first thousand of very many faults are reported."""
        self.assertEqual(len(self.problems("[[site]]\n" * 3000)), 1000)

    @given(
        st.dictionaries(
            st.sampled_from((*TABLES, "other")),
            st.one_of(
                st.lists(
                    st.dictionaries(
                        st.sampled_from(
                            sorted({key for keys in TABLES.values() for key in keys} | {"other"})
                        ),
                        st.one_of(
                            st.sampled_from(
                                ('"Berlin"', f'"{BERLIN}"', f'"{ALPHA}"', '"ALPHA"', "1", "true", "[]", "-5")
                            ),
                            st.sampled_from(('["Berlin", "Paris"]', '["ALPHA"]', "[1]", "1979-05-27", "{}")),
                        ),
                        max_size=6,
                    ),
                    max_size=3,
                )
            ),
            max_size=6,
        )
    )
    def test_any_tables(self, tables: dict[str, list[dict[str, str]]]) -> None:
        """Any file is read or refused, with the same report both times."""
        text = ""
        for table, rows in tables.items():
            for row in rows[:1] if table == "enterprise" else rows:
                text += f"[{table}]\n" if table == "enterprise" else f"[[{table}]]\n"
                text += "".join(f"{key} = {value}\n" for key, value in row.items())
        path = self.written(text)
        faults = [each for each in check_enterprise(path) if each.is_fault]
        try:
            load_enterprise(path)
        except EnterpriseFileError as error:
            self.assertEqual(list(error.problems), faults)
        else:
            self.assertEqual(faults, [])
