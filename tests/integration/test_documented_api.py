"""The examples of docs/control.md, run as they stand there."""

from __future__ import annotations

import os
import re
import shutil
from typing import cast

from twisted.internet.utils import getProcessOutputAndValue
from twisted.trial.unittest import SkipTest

from msmq.control.protocol.records import RecordDecoder
from tests.integration.test_control_socket import ORDERS, PROJECT, CommandTestCase


class DocumentedTests(CommandTestCase):
    """A shell with curl does what the document says."""

    async def test_examples(self) -> None:
        """Every example succeeds, one after the other, and the messages are there at the end."""
        if shutil.which("curl") is None:
            raise SkipTest("curl is not installed")
        await self.service.delete_queue(ORDERS)
        document = (PROJECT / "docs" / "control.md").read_text(encoding="utf-8")
        script = "set -eu\n" + "\n".join(re.findall(r"(?ms)^```sh\n(.*?)^```$", document))
        output, errors, status = cast(
            tuple[bytes, bytes, int],
            await getProcessOutputAndValue(
                "/bin/sh",
                ["-c", script],
                env={"PATH": os.environ["PATH"], "SOCKET": str(self.socket)},
                path=str(self.directory),
            ),
        )
        self.assertEqual((status, errors), (0, b""), output)
        self.assertIn(b"Msmq-Label: first\r\n", output)
        self.assertIn(b"two boxes", output)
        records = RecordDecoder().feed((self.directory / "messages").read_bytes())
        bodies = [record.body for record in records]
        self.assertEqual(bodies, [b"one box", b"three boxes", b"one", b"two", b""])
        self.assertEqual(self.service.inspection.queues(), [])
