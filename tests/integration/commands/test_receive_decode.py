"""C{msmq receive --decode}, with the decoders of msmq and one of a plugin."""

from __future__ import annotations

from typing import Any

from msmq.queues.arriving.message import Message
from tests.decoding.bodies.vectors import vectors
from tests.integration.test_control_socket import ORDERS, PROJECT, CommandTestCase

PLUGIN = """
from twisted.plugin import IPlugin
from zope.interface import implementer
from msmq.interfaces import BodyNotDecoded, DecodedBody, IBodyDecoder

@implementer(IBodyDecoder)
class Reversed:
    name = "reversed"
    def recognises(self, body):
        return body.data.startswith(b">")
    def decode(self, body, limits):
        if body.data == b">":
            raise BodyNotDecoded("is too short")
        return DecodedBody(self.name, "backwards", body.data[::-1].decode())

decoder = Reversed()
"""


class ReceiveDecodeTests(CommandTestCase):
    async def decoded(self, *arguments: str, **environment: str) -> list[tuple[Any, Any]]:
        """The decoded values of each message in the queue."""
        ended = await self.msmq(
            "receive",
            ORDERS,
            *("--count", "9", "--timeout", "0", "--decode", "--json", *arguments),
            environment=environment or None,
        )
        self.assertEqual((ended.status, ended.errors), (0, ""))
        return [(message["decoded"], message["decode_error"]) for message in ended.objects]

    async def test_each_body_is_read_by_what_it_is(self) -> None:
        """A message of .NET, one in XML with headers, and one of an unknown format."""
        body = vectors()["nrbf-string"]
        await self.service.send(
            ORDERS,
            [
                Message(body=body.data, body_type=body.body_type),
                Message(body=b"<a>x</a>", extension=b'{"id": "7"}'),
                Message(body=b"\xff\xfe\xfd"),
            ],
        )
        net, rebus, unknown = await self.decoded()
        self.assertEqual(
            net, ({"format": "nrbf", "reading": ".NET binary format (NRBF)", "value": "héllo"}, None)
        )
        self.assertEqual(
            rebus,
            (
                {
                    "format": "xml",
                    "reading": "XML; headers of Rebus in the extension",
                    "envelope": "rebus",
                    "headers": {"id": "7"},
                    "value": {"a": "x"},
                },
                None,
            ),
        )
        self.assertIs(unknown[0], None)
        self.assertIn("the body is not UTF-16-LE", unknown[1])

    async def test_people_see_the_content(self) -> None:
        """Instead of the bytes, without control sequences of terminals; what was not decoded is named."""
        await self.put(b'{"a": "\\u001b[31m"}', b'{"a": ')
        ended = await self.msmq("receive", ORDERS, "--count", "2", "--decode")
        output = ended.output.decode()
        self.assertIn('"value": {\n', output)
        self.assertNotIn("\x1b", output)
        self.assertIn("(the body is not JSON: ", output)

    async def test_a_plugin_is_asked_first(self) -> None:
        """It is in another directory of plugins."""
        plugins = self.directory / "theirs" / "twisted" / "plugins"
        plugins.mkdir(parents=True)
        (plugins / "reversed_plugin.py").write_text(PLUGIN)
        await self.put(b">cba", b">", b"abc")
        first, second, third = await self.decoded(PYTHONPATH=f"{plugins.parent.parent}:{PROJECT}")
        self.assertEqual(first[0]["value"], "abc>")
        self.assertEqual(second, (None, "the body is too short"))
        self.assertEqual(third[0]["format"], "text")
