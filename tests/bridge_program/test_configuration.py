"""The configuration of C{twistd msmq-bridge}."""

from __future__ import annotations

from pathlib import Path

from twisted.python import usage

from msmq.bridge_program.configuration import KEYS, BridgeOverrides, check_bridge, load_bridge
from msmq.bridge_program.settings import BridgeConfiguration
from msmq.bridge_program.tap import Options, makeService
from msmq.bridge_service.settings import InwardSettings, OutwardSettings
from tests.cli.support import CommandTestCase
from tests.security.tls_files import TlsFiles
from tests.servers.certificates import make_credentials

PROJECT = Path(__file__).resolve().parents[2]
SERVERS = (
    '[control_servers]\nALPHA = "unix:/run/alpha.sock"\nBETA = "ssl:beta.example.com:1803:tokenFile=/t"\n'
)
OUT = '[[bridge]]\nname = "out"\nfrom = ".\\\\private$\\\\q"\nto = "amqp://127.0.0.1?queue=q"\n'


class BridgeConfigurationTests(CommandTestCase):
    """What a file says, and what is wrong with it."""

    def write(self, text: str) -> Path:
        path = Path(str(self.mktemp()))
        path.write_text(text)
        return path

    def load(self, text: str, **overrides: str) -> BridgeConfiguration:
        return load_bridge(self.write(text), BridgeOverrides(**overrides))

    def test_whole_file(self) -> None:
        """Every table, with two queue managers."""
        found = self.load(
            '[program]\nname = "B1"\ndata = "/srv/bridge"\n'
            '[listen]\ncontrol = "unix:{data}/c.sock"\nweb = "tcp:15802:interface=127.0.0.1"\n'
            '[log]\nlevel = "warn"\n'
            + SERVERS
            + OUT.replace(".\\\\", "beta:.\\\\")
            + '[[bridge]]\nname = "in"\nfrom = "amqp://127.0.0.1?queue=q"\n'
            'to = "ALPHA:DIRECT=OS:GAMMA\\\\q"\n'
        )
        out, back = found.routes
        assert isinstance(out, OutwardSettings) and isinstance(back, InwardSettings)
        self.assertEqual(
            (found.name, found.data, found.control), ("B1", Path("/srv/bridge"), Path("/srv/bridge/c.sock"))
        )
        self.assertEqual(
            (out.queue_manager, out.queue, out.rules.route), ("BETA", ".\\private$\\q", "B1/out")
        )
        self.assertEqual((back.queue_manager, back.queue), ("ALPHA", "DIRECT=OS:GAMMA\\q"))
        self.assertEqual(out.ends["source"], "BETA:.\\private$\\q")
        self.assertEqual(found.log.level, "warn")

    def test_one_queue_manager_needs_no_name(self) -> None:
        """With one queue manager the queue is enough; options win over the file."""
        found = self.load(
            '[program]\nname = "B1"\n[control_servers]\nALPHA = "alpha.sock"\n' + OUT, name="B2", data="d"
        )
        self.assertEqual((found.routes[0].queue_manager, found.name), ("ALPHA", "B2"))
        self.assertEqual((found.data, found.control), (Path.cwd() / "d", Path.cwd() / "d" / "control.sock"))
        self.assertEqual(found.control_servers["ALPHA"], f"unix:{Path.cwd() / 'alpha.sock'}")

    def test_mistakes(self) -> None:
        """Each mistake is reported with its line and key."""
        for text, problem in (
            ("", "bridge: is missing: a bridge has at least one table [[bridge]]"),
            (SERVERS + OUT, "6: bridge[0].from: names no queue manager: write NAME:.\\private$\\q;"),
            (
                SERVERS + OUT.replace(".\\\\", "GAMMA:.\\\\"),
                "6: bridge[0].from: names the queue manager 'GAMMA'; [control_servers] has ALPHA, BETA",
            ),
            (
                OUT,
                "3: bridge[0].from: names no queue manager: write NAME:.\\private$\\q; [control_",
            ),
            ("[queue_manager]\n", "1: queue_manager: is not a table of the configuration of a bridge"),
            ('[program]\nnam = "x"\n', "2: program.nam: is not a key of [program]; did you mean 'name'?"),
            ('[program]\nname = "a b"\n', "2: program.name: must be letters"),
            ("log = 3\n", "1: log: must be a table, not a whole number"),
            ('[listen]\nweb = "nonsense"\n', "2: listen.web: "),
            (
                '[listen]\nweb = "ssl:1:interface=0.0.0.0"\n',
                "2: listen.web: is reached from",
            ),
            ('[control_servers]\nALPHA = "ssl:beta:1803"\n', "2: control_servers.ALPHA: "),
            (
                '[control_servers]\nALPHA = "a"\nalpha = "b"\n',
                "3: control_servers.alpha: is the same",
            ),
            ("[control_servers]\nALPHA = 3\n", "2: control_servers.ALPHA: must be text, not a whole number"),
            ("control_servers = 3\n", "1: control_servers: must be a table"),
            (OUT + "window = 0\n", "5: bridge[0].window: "),
            ("[listen\n", "1: "),
        ):
            path = self.write(text)
            found = [str(each).removeprefix(f"{path}:").strip() for each in check_bridge(path)]
            self.assertTrue(any(each.startswith(problem) for each in found), (problem, found))

    def test_missing_file(self) -> None:
        """A file that cannot be read, and an option that is missing, are one line."""
        options = Options()
        options.parseOptions(["--config", "/no/such/file"])
        with self.assertRaisesRegex(SystemExit, "^/no/such/file: cannot be read: No such file or directory$"):
            makeService(options)
        options = Options()
        options.parseOptions([])
        with self.assertRaisesRegex(SystemExit, "^msmq-bridge: --config is missing"):
            makeService(options)
        self.assertRaises(usage.UsageError, Options().parseOptions, ["--nonsense"])

    def test_check_by_the_command(self) -> None:
        """C{msmq bridge check} lists all faults with their lines, and ends with status 1 if there is one."""
        path = self.write('[control_servers]\nALPHA = "a"\n' + OUT)
        done = self.msmq("bridge", "check", str(path))
        self.assertEqual((done.status, done.output), (0, f"{path}: no problems found\n"))
        path.write_text("[log]\nlevl = 1\n" + SERVERS + OUT)
        done = self.msmq("bridge", "check", "--json", str(path))
        self.assertEqual(([line["line"] for line in done.objects], done.status), ([2, 8], 1))

    def test_files_of_routes_and_queue_managers(self) -> None:
        """The check reads the files of tokens and certificates; each that cannot be used has a line."""
        directory = Path(self.mktemp()).absolute()
        directory.mkdir()
        credentials = make_credentials()
        (directory / "ca.pem").write_bytes(credentials.authority)
        (directory / "pair.pem").write_bytes(credentials.certificate + credentials.key)
        (directory / "no.pem").write_text("not a certificate\n")
        (directory / "half.pem").write_bytes(credentials.authority.replace(b"M", b"*", 9))
        token = directory / "token"
        token.write_text("t" * 40)
        token.chmod(0o600)
        route = OUT.replace("amqp:", "amqps:").replace('".\\\\', '"BETA:.\\\\')
        text = (
            '[control_servers]\nALPHA = "a"\nBETA = "ssl:b:1:tokenFile=D/token:caFile=D/ca.pem"\n'
            + route
            + 'ca_file = "D/ca.pem"\ncertificate_file = "D/pair.pem"\n'
        )
        path = self.write(text.replace("D/", f"{directory}/"))
        self.assertEqual(check_bridge(path), [])
        token.chmod(0o644)
        for old, new in (
            ("caFile=D/ca.pem", "caFile=D/no.pem"),
            ('"D/ca.pem"', '"D/half.pem"'),
            ("pair.pem", "missing.pem"),
        ):
            text = text.replace(old, new)
        path.write_text(text.replace("D/", f"{directory}/"))
        wrong = "cannot be used: "
        self.assertEqual(
            [str(each).removeprefix(f"{path}:") for each in check_bridge(path)],
            [
                f"3: control_servers.BETA: {wrong}token file {token}: it is readable by every user of"
                " this computer; run chmod 600",
                f"3: control_servers.BETA: {wrong}caFile {directory}/no.pem: it holds no certificates",
                f"8: bridge[0].ca_file: {wrong}{directory}/half.pem: certificate 1 is damaged or not PEM",
                f"9: bridge[0].certificate_file: {wrong}{directory}/missing.pem cannot be read: No such file"
                " or directory",
            ],
        )
        # A queue manager that cannot be used is no reason not to start the other routes.
        self.assertEqual(len(load_bridge(path).routes), 1)
        locked = TlsFiles.make(directory, "locked", passphrase=b"secret")
        (directory / "missing.pem").write_bytes(
            locked.certificate.read_bytes() + locked.private_key.read_bytes()
        )
        self.assertIn(f"{directory}/missing.pem: its private key has a password", str(check_bridge(path)[-1]))
        text = text.replace("half.pem", "no.pem").replace("missing.pem", "ca.pem")
        path.write_text(text.replace("D/", f"{directory}/"))
        done = self.msmq("bridge", "check", str(path))
        self.assertEqual(done.status, 1)
        self.assertIn(f"{directory}/no.pem: has no certificate in PEM", done.output)
        self.assertIn(f"{directory}/ca.pem: has no certificate with its private key", done.output)

    def test_every_key_is_documented(self) -> None:
        """The guide has a row for each key of each table."""
        page = (PROJECT / "docs" / "guide" / "bridge-program.md").read_text(encoding="utf-8")
        found = set()
        for row in page.splitlines():
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            found |= (
                {(cells[0], key.strip("` ")) for key in cells[1].split(",")} if len(cells) == 4 else set()
            )
        for table, keys in KEYS.items():
            for key in keys:
                self.assertIn((f"`[{table}]`", key), found)
