"""The tables C{[[bridge]]} of a configuration."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.bridge.body_decoding import BodyDecoding
from msmq.bridge_service.amqp10.settings import Amqp10Settings
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.kafka.settings import KafkaSettings
from msmq.bridge_service.rabbitmq.settings import RabbitSettings
from msmq.bridge_service.route_table import KEYS
from msmq.bridge_service.settings import InwardSettings, OutwardSettings
from msmq.service.configuration import ConfigurationError, Overrides, load
from msmq.service.reload import differences
from msmq.service.settings import Configuration

PROJECT = Path(__file__).resolve().parents[2]


class RouteTableTests(SynchronousTestCase):
    """Routes from a file."""

    def configuration(self, text: str) -> Configuration:
        self.path = Path(str(self.mktemp()))
        self.path.write_text(text)
        return load(self.path, Overrides(name="ALPHA"), {})

    def problems(self, text: str) -> list[str]:
        try:
            self.configuration(text)
        except ConfigurationError as error:
            return [str(problem).removeprefix(f"{self.path}:") for problem in error.problems]
        return []

    def test_routes(self) -> None:
        """Both directions, with the defaults and everything that an address has."""
        secret = Path(str(self.mktemp()))
        secret.write_text("staple\n")
        found = self.configuration(
            '[[bridge]]\nname = "out"\nfrom = ".\\\\private$\\\\orders"\n'
            'to = "amqps://horse@rabbit.example.com/a%2Fb?exchange=x&routing_key=y"\n'
            f'password_file = "{secret}"\nnodes = ["[::1]:5673"]\n'
            '[[bridge]]\nname = "in"\nfrom = "amqp://127.0.0.1?queue=q"\nto = "DIRECT=OS:BETA\\\\q"\n'
            'delivery = "transactional"\non_failure = "stop"\n'
        ).bridges
        out, back = found
        assert isinstance(out, OutwardSettings) and isinstance(back, InwardSettings)
        self.assertEqual(
            (out.rules.exchange, out.rules.routing_key, out.rules.route), ("x", "y", "ALPHA/out")
        )
        broker = out.broker
        assert isinstance(broker, RabbitSettings) and isinstance(back.broker, RabbitSettings)
        self.assertEqual((broker.user, broker.password, broker.virtual_host), ("horse", "staple", "a/b"))
        self.assertEqual(
            broker.addresses, (BrokerAddress("rabbit.example.com", 5671), BrokerAddress("::1", 5673))
        )
        self.assertEqual(out.dead_letters, ".\\private$\\bridge-dead-letters")
        self.assertEqual(
            (back.broker_queue, back.queue, back.dead_letters), ("q", "DIRECT=OS:BETA\\q", "q.dead-letters")
        )
        self.assertEqual(
            (back.rules.delivery, back.stops_at_failure, back.broker.virtual_host),
            ("transactional", True, "/"),
        )
        self.assertNotIn("staple", repr(found))

    def test_several_hosts(self) -> None:
        """An address has several hosts, each with or without a port, and C{nodes} adds others."""
        (found,) = self.configuration(
            '[[bridge]]\nname = "in"\nfrom = "amqp://u:p@one,two:5673,[::1]/?queue=q"\n'
            'to = "DIRECT=OS:B\\\\q"\n'
            'nodes = ["three:1"]\n'
        ).bridges
        self.assertEqual(
            [str(each) for each in found.broker.addresses], ["one:5672", "two:5673", "[::1]:5672", "three:1"]
        )

    def test_families(self) -> None:
        """The scheme of an address chooses the broker, with what its address has."""
        start = '[[bridge]]\nname = "r"\n'
        here = "from = '.\\private$\\orders'\n"
        (kafka,) = self.configuration(
            f'{start}{here}to = "kafkas://u:staple@one,two:9/orders?mechanism=SCRAM-SHA-512"\n'
            'routing_key = "label"\n'
        ).bridges
        settings = kafka.broker
        assert isinstance(settings, KafkaSettings) and isinstance(kafka, OutwardSettings)
        self.assertEqual((settings.bootstrap, settings.is_tls), ("one:9092,two:9", True))
        self.assertEqual((settings.client_name, settings.state_topic), ("msmq-bridge.ALPHA.r",) * 2)
        self.assertEqual((settings.mechanism, kafka.rules.exchange), ("SCRAM-SHA-512", "orders"))
        (group,) = self.configuration(
            f"{start}from = \"kafka://one/orders?group=shop&session=9\"\nto = '.\\private$\\x'\n"
        ).bridges
        assert isinstance(group.broker, KafkaSettings) and isinstance(group, InwardSettings)
        self.assertEqual(
            (group.broker.group, group.broker.session_time, group.dead_letters),
            ("shop", 9.0, "orders.dead-letters"),
        )
        (amqp10,) = self.configuration(f'{start}{here}to = "amqp10://one//queue/a%20b?hostname=h"\n').bridges
        assert isinstance(amqp10.broker, Amqp10Settings) and isinstance(amqp10, OutwardSettings)
        self.assertEqual((amqp10.rules.exchange, amqp10.broker.hostname), ("/queue/a b", "h"))
        self.assertEqual(
            (amqp10.broker.mechanism, str(amqp10.broker.addresses[0])), ("ANONYMOUS", "one:5672")
        )

    def test_mistakes_of_families(self) -> None:
        """Each mistake in an address, and each key that a broker has not, is reported."""
        start = "[[bridge]]\nname = 'r'\nfrom = '.\\private$\\orders'\n"
        for text, problem in (
            ('to = "kafka://one"\n', "4: bridge[0].to: has no topic"),
            ('to = "kafka://one/a b"\n', "4: bridge[0].to: has a topic with other characters"),
            (
                'to = "kafka://one/t?group=g"\n',
                "4: bridge[0].to: has group, which is of routes from a broker",
            ),
            ('to = "kafka://one/t?mechanism=NTLM"\n', "4: bridge[0].to: has the mechanism 'NTLM'"),
            (
                'to = "kafka://one/t"\nheartbeat = 5\n',
                "5: bridge[0].heartbeat: is a key of routes of RabbitMQ",
            ),
            (
                'to = "kafka://one/t"\nproperties = { priority = "`1`" }\n',
                "5: bridge[0].properties: has 'priority', which this direction cannot set",
            ),
            ('to = "amqp10://one"\n', "4: bridge[0].to: has no address"),
            ('to = "amqp10://one/q?vhost=x"\n', "4: bridge[0].to: has the parameter 'vhost'"),
            ('to = "mqtt://one/q"\n', "4: bridge[0].to: must be a queue"),
        ):
            found = self.problems(start + text)
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(problem), found)

    def test_mistakes(self) -> None:
        """Each mistake is reported with its line and key."""
        start = '[[bridge]]\nname = "out"\nfrom = ".\\\\private$\\\\orders"\n'
        to = 'to = "amqp://127.0.0.1?queue=q"\n'
        for text, problem in (
            ("bridge = 3\n", "1: bridge: must be tables, each with the header [[bridge]]"),
            (start, "1: bridge[0]: has no to"),
            (start + 'to = "queue"\n', "4: bridge[0].to: must be a queue"),
            (
                start + 'to = ".\\\\private$\\\\other"\n',
                "4: bridge[0].to: and from must be a queue and a broker",
            ),
            (start + 'to = "amqp://u:staple@h/v?key=1"\n', "4: bridge[0].to: has the parameter 'key'"),
            (start + 'to = "amqp://127.0.0.1"\n', "4: bridge[0].to: has neither exchange nor queue"),
            (start + to + "window = 0\n", "5: bridge[0].window: "),
            (
                start + to + "widow = 1\n",
                "5: bridge[0].widow: is not a key of [[bridge]]; did you mean 'window'?",
            ),
            (
                start + to + 'delivery = "express"\n',
                "5: bridge[0].delivery: is a key of routes from a broker",
            ),
            (start + to + 'routing_key = "a["\n', "5: bridge[0].routing_key: is not JMESPath"),
            (start + to + 'properties = { body = "x" }\n', "5: bridge[0].properties: has 'body', which"),
            (start + to + 'ca_file = "x"\n', "5: bridge[0].ca_file: is used with amqps:// alone"),
            (start + to + 'decode = "jsn"\n', "5: bridge[0].decode: must be auto, wcf, nrbf, "),
            (start + to + "claim_lifetime = 60\n", "5: bridge[0].claim_lifetime: is used with claim_check"),
            (start + to + 'mapping = "orders"\n', "5: bridge[0].mapping: is 'orders': it has to be MODULE:"),
            (
                start + to + 'mapping = "tests.bridge.test_bodies:Other"\n',
                "5: bridge[0].mapping: is 'tests.bridge.test_bodies:Other': module 'tests.bridge.test_bodies'"
                " has no class 'Other'",
            ),
            (
                start + to + 'mapping = "decimal:Decimal"\n',
                "5: bridge[0].mapping: is 'decimal:Decimal', which is not a class that implements IOutward",
            ),
            (start + to + 'nodes = ["x"]\n', "5: bridge[0].nodes: must be HOST:PORT, not 'x'"),
            (
                start + to + 'password_file = "/no/such"\n',
                "5: bridge[0].password_file: /no/such cannot be read",
            ),
            (start + to + start + to, "6: bridge[1].name: is 'out', as another route has it"),
            (
                start + 'to = "amqp://127.0.0.1"\nanswers = "x"\n',
                "5: bridge[0].answers: names 'x', which is not",
            ),
        ):
            found = self.problems(text)
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(problem), found)
            self.assertNotIn("staple", found[0])

    def test_bodies(self) -> None:
        """Decoding, claim checks and the class of a mapping."""
        (route,) = self.configuration(
            '[[bridge]]\nname = "out"\nfrom = ".\\\\private$\\\\q"\nto = "amqp://127.0.0.1?queue=q"\n'
            'decode = "auto"\nclaim_check = "/srv/claims"\nclaim_lifetime = 3600\n'
            'mapping = "tests.bridge.test_bodies:Changing"\n'
        ).bridges
        assert isinstance(route, OutwardSettings)
        self.assertEqual((route.claims, route.claim_lifetime), (Path("/srv/claims"), 3600.0))
        self.assertTrue(route.rules.has_claims)
        self.assertEqual(route.rules.decoding, BodyDecoding("auto"))
        assert route.mapping is not None
        self.assertEqual(route.mapping.name, "tests.bridge.test_bodies:Changing")

    def test_change_needs_a_restart(self) -> None:
        """A reload reports changed routes."""
        text = '[[bridge]]\nname = "out"\nfrom = ".\\\\private$\\\\orders"\nto = "amqp://127.0.0.1?queue=q"\n'
        before, after = self.configuration(text), self.configuration(text + "window = 2\n")
        self.assertEqual(list(differences(before, after)), ["bridge"])
        self.assertEqual(list(differences(before, before)), [])

    def test_every_key_is_documented(self) -> None:
        """docs/configuration.md has a row for each key with its type, unit and values."""
        page = (PROJECT / "docs" / "configuration.md").read_text(encoding="utf-8")
        rows = page.partition("## `[[bridge]]`")[2].partition("\n## ")[0].splitlines()
        cells = [
            [cell.strip() for cell in row.strip("|").split("|")] for row in rows if row.startswith("| `")
        ]
        self.assertEqual(
            [row[:4] for row in cells],
            [[f"`{name}`", key.kind.type_name, key.unit, key.kind.range_text] for name, key in KEYS.items()],
        )

    def test_answers_behind_another_problem(self) -> None:
        """A problem is at the line of its route, and a route that answers one with a problem has none."""
        out = 'from = ".\\\\private$\\\\x"\nto = "amqp://127.0.0.1"\n'
        found = self.problems(
            '[[bridge]]\nname = "requests"\nfrom = "amqp://127.0.0.1?queue=q"\nto = ".\\\\private$\\\\r"\n'
            'reply_queue = "DIRECT=OS:A\\\\x"\nwindow = 0\n'
            f'[[bridge]]\nname = "replies"\n{out}answers = "requests"\n'
            f'[[bridge]]\nname = "others"\n{out}answers = "none"\n'
        )
        self.assertEqual(
            [line.partition(": names")[0].partition(": must")[0] for line in found],
            ["6: bridge[0].window", "16: bridge[2].answers"],
        )
