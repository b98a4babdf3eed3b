"""Where the values of a configuration come from, and what a check finds out about the machine."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.service.configuration import ConfigurationError, Overrides, check, load
from msmq.service.settings import Configuration

OFF = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'


class SourceTests(SynchronousTestCase):
    """Files, variables and options."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp())
        (self.directory / "conf.d").mkdir(parents=True)
        self.file = self.directory / "msmq.toml"
        self.file.write_text("")

    def add(self, name: str, text: str) -> None:
        """One more file next to the first."""
        (self.directory / "conf.d" / name).write_text(text)

    def load(self, overrides: Overrides | None = None, **environment: str) -> Configuration:
        """The configuration with these variables."""
        return load(self.file, overrides, environment)

    def problems(self, **environment: str) -> list[str]:
        """The problems, each with its path below the directory."""
        error = self.assertRaises(ConfigurationError, self.load, **environment)
        return [str(each).removeprefix(f"{self.directory}/") for each in error.problems]

    def test_files_in_order(self) -> None:
        """A later file replaces keys of an earlier one and leaves the others; other names are not read."""
        self.file.write_text(
            "[limits]\nquota = 1\nevents = 2\n[hosts]\nBETA = '127.0.0.2'\nGAMMA = '127.0.0.3'\n"
        )
        self.add("20-more.toml", "[limits]\nquota = 20\n")
        self.add("10-less.toml", "[limits]\nquota = 10\n[hosts]\nbeta = '127.0.0.9'\n")
        self.add("30-off.toml.bak", "[limits]\nquota = 30\n")
        found = self.load()
        self.assertEqual((found.limits.quota, found.limits.events), (20, 2))
        self.assertEqual(found.hosts, {"GAMMA": "127.0.0.3", "beta": "127.0.0.9"})

    def test_mistakes_name_their_file(self) -> None:
        """Each mistake has the file and the line that it is in."""
        self.file.write_text("[limits]\nquota = 0\n")
        self.add("a.toml", "\n[limits]\nevents = 0\n")
        self.add("b.toml", "[limits\n")
        first, second, third = self.problems(MSMQ_LIMITS_QOUTA="5")[:3]
        self.assertTrue(first.startswith("msmq.toml:2: limits.quota: "), first)
        self.assertTrue(second.startswith("conf.d/a.toml:3: limits.events: "), second)
        self.assertTrue(third.startswith("conf.d/b.toml:1: "), third)

    def test_a_directory_that_cannot_be_read(self) -> None:
        """Settings that nothing reads are reported, and a check, a start and a reload are refused."""
        directory = self.directory / "conf.d"
        directory.rmdir()
        for make, reason in (
            (lambda: directory.symlink_to("conf.d"), "Too many levels of symbolic links"),
            (lambda: directory.symlink_to("none"), "No such file or directory"),
            (directory.touch, "Not a directory"),
        ):
            with self.subTest(reason):
                make()
                self.assertEqual(self.problems(), [f"conf.d: cannot be read: {reason}"])
                directory.unlink()
        self.load()

    def test_the_environment_wins_over_files(self) -> None:
        """Values of every kind; an option wins over them; variables of other programs are passed over."""
        self.file.write_text("[limits]\nquota = 1\n[queue_manager]\nname = 'FILE'\n")
        found = self.load(
            Overrides(name="OPTION"),
            MSMQ_LIMITS_QUOTA="7",
            MSMQ_TIMERS_CONNECT="2.5",
            MSMQ_QUEUE_MANAGER_NAME="VARIABLE",
            MSMQ_QUEUE_MANAGER_ROUTING_SERVER="true",
            MSMQ_QUEUES_POISON_AFTER="3",
            MSMQ_SECURITY_PEERS="192.0.2.7, 10.20.0.0/16",
            MSMQ_HOSTS_BETA="127.0.0.2",
            MSMQ_CONTROL="/run/msmq.sock",
            MSMQ_SOAK="5",
        )
        self.assertEqual((found.limits.quota, found.timers.connect, found.queues.poison_after), (7, 2.5, 3))
        self.assertEqual((found.queue_manager.name, found.queue_manager.routing_server), ("OPTION", True))
        self.assertEqual(found.security.peers, (ip_network("192.0.2.7"), ip_network("10.20.0.0/16")))
        self.assertEqual(found.hosts, {"BETA": "127.0.0.2"})

    def test_values_from_files(self) -> None:
        """A variable that ends with _FILE names a file with the value, unless the key itself ends so."""
        secret = self.directory / "secret"
        secret.write_text("sqlite:other.sqlite\n")
        found = self.load(MSMQ_STORAGE_BACKEND_FILE=str(secret), MSMQ_SECURITY_CONTROL_TOKEN_FILE="/t")
        self.assertEqual((found.storage, found.security.control_token_file), ("sqlite:other.sqlite", "/t"))
        [problem] = self.problems(MSMQ_STORAGE_BACKEND_FILE="/nowhere")
        self.assertEqual(
            problem,
            "MSMQ_STORAGE_BACKEND_FILE: storage.backend: names the file /nowhere: No such file or directory",
        )

    def test_two_variables_of_one_key(self) -> None:
        """A value and a file with the value exclude each other; neither is passed over."""
        secret = self.directory / "secret"
        secret.write_text("sqlite:other.sqlite\n")
        self.assertEqual(
            self.problems(MSMQ_STORAGE_BACKEND="memory", MSMQ_STORAGE_BACKEND_FILE=str(secret)),
            [
                "MSMQ_STORAGE_BACKEND_FILE: storage.backend: excludes the variable"
                " MSMQ_STORAGE_BACKEND, which is set too"
            ],
        )

    def test_sizes_and_durations(self) -> None:
        """A number, and text with a unit, as in a file."""
        found = self.load(
            MSMQ_LIMITS_QUOTA="20GiB",
            MSMQ_LIMITS_EXPRESS_MEMORY="10000000",
            MSMQ_TIMERS_LINGER="1500 ms",
            MSMQ_TIMERS_CONNECT="2.5",
        )
        self.assertEqual((found.limits.quota, found.limits.express_memory), (20 << 20, 10_000_000))
        self.assertEqual((found.session.linger, found.timers.connect), (1.5, 2.5))

    def test_mistakes_name_their_variable(self) -> None:
        """An unknown key and a wrong value are reported with the variable."""
        for variable, value, words in (
            ("MSMQ_LIMITS_QOUTA", "5", "limits.qouta: is not a key of [limits]; did you mean"),
            ("MSMQ_LIMITS_QUOTA", "many", "limits.quota: must be a number of KiB, or text with a unit as"),
            ("MSMQ_LIMITS_QUOTA", "0", "limits.quota: must be from 1 to"),
            ("MSMQ_SECURITY_HARDENED", "yes", "security.hardened: must be true or false, not text"),
            ("MSMQ_SECURITY_PEERS", "here", "security.peers[0]: "),
            ("MSMQ_HOSTS_BETA", "1.2.3", "hosts.BETA: "),
        ):
            [problem] = self.problems(**{variable: value})
            self.assertTrue(problem.startswith(f"{variable}: {words}"), problem)


class MachineTests(SynchronousTestCase):
    """Problems that config check finds on the machine, not in the text."""

    def problems(self, text: str) -> list[str]:
        """The problems of a file, without its name."""
        path = Path(self.mktemp())
        path.write_text(text)
        return [str(problem).removeprefix(f"{path}:") for problem in check(path)]

    def test_what_a_start_would_refuse(self) -> None:
        """A missing group, directory, token file or certificate is found, with its line."""
        file = Path(self.mktemp())
        file.write_text("")
        for text, words in (
            ('[security]\ncontrol_group = "no-such-group"\n', "control_group: names the group no-such-group"),
            ('[storage]\nbackend = "sqlite:no/such/q.sqlite"\n', "storage.backend: cannot be used"),
            (
                f'[queue_manager]\ndata = "{file}/x"\n[listen]\ncontrol = "off"\n',
                f"{file} is not a directory",
            ),
            ('[listen]\ncontrol = "unix:/no/such/control.sock"\n', "/no/such, which is not a directory"),
            (
                '[listen]\nremote_control = "tcp:1:interface=127.0.0.1"\n'
                '[security]\ncontrol_token_file = "/no/tokens"\n',
                "security.control_token_file: cannot be used: token file /no/tokens",
            ),
            (
                '[listen]\nweb = "tcp:1:interface=127.0.0.1"\n[web]\nmember_token_file = "/no/token"\n',
                "web.member_token_file: cannot be used: token file /no/token",
            ),
            (
                '[listen]\nweb = "ssl:1:interface=127.0.0.1:privateKey=/no/key.pem"\n',
                "listen.web: cannot be used: /no/key.pem: No such file",
            ),
            (
                '[listen]\nsession = "tls:1:interface=127.0.0.1:privateKey=/no/k:certificate=/no/c"\n',
                "listen.session: cannot be used: ",
            ),
            (
                '[[bridge]]\nname = "b"\nfrom = ".\\\\private$\\\\q"\nto = "amqps://127.0.0.1?queue=q"\n'
                'ca_file = "/no/ca.pem"\n',
                "bridge[0].ca_file: cannot be used: /no/ca.pem cannot be read: No such file",
            ),
        ):
            [problem] = self.problems(text)
            self.assertIn(words, problem)
            self.assertTrue(problem[0].isdigit(), problem)
