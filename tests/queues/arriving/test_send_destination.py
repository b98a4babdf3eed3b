"""Where messages for a name go, as a table. [MS-MQDMPR] 3.1.7.1.27."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.send_destination import (
    DestinationFacts,
    DestinationRefusal,
    DirectDestination,
    LocalDestination,
    OutgoingDestination,
    PublicDestination,
    SendDestination,
    decide_destination,
)
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.names.name_text import is_format_name
from msmq.structures.names.path_name import PathName, parse_path_name
from msmq.structures.status import Status

OWN = DestinationFacts(is_local=True, exists=True, is_system=False, has_directory=False)
MISSING = attrs.evolve(OWN, exists=False)
SYSTEM = attrs.evolve(OWN, is_system=True)
REMOTE = attrs.evolve(MISSING, is_local=False)
LISTED = attrs.evolve(REMOTE, has_directory=True)

GUID = "58f74a04-56c6-4d8c-9d8a-9f5f1bbd2c5a"
UNSUPPORTED = Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
NOT_FOUND = Status.MQ_ERROR_QUEUE_NOT_FOUND
NO_DIRECTORY = Status.MQ_ERROR_NO_DS

TABLE: tuple[tuple[str, DestinationFacts, type | Status, str], ...] = (
    # A queue of this queue manager.
    (".\\private$\\orders", OWN, LocalDestination, ""),
    ("DIRECT=OS:ALPHA\\private$\\orders", OWN, LocalDestination, ""),
    (f"PRIVATE={GUID}\\00000001", OWN, LocalDestination, ""),
    (f"PUBLIC={GUID}", OWN, LocalDestination, ""),
    (".\\private$\\orders", MISSING, NOT_FOUND, "does not exist"),
    ("DIRECT=OS:ALPHA\\private$\\orders", MISSING, NOT_FOUND, "does not exist"),
    (".\\orders", MISSING, NO_DIRECTORY, "needs a directory"),
    # What can only be read, and subqueues.
    (".\\system$;deadletter", SYSTEM, UNSUPPORTED, "can only be read"),
    (".\\private$\\orders;journal", SYSTEM, UNSUPPORTED, "can only be read"),
    ("DIRECT=OS:BETA\\private$\\orders;journal", REMOTE, UNSUPPORTED, "can only be read"),
    (f"MACHINE={GUID};DEADLETTER", REMOTE, UNSUPPORTED, "can only be read"),
    (".\\private$\\orders;late", OWN, UNSUPPORTED, "only moving fills"),
    ("DIRECT=OS:ALPHA\\private$\\orders;late", MISSING, UNSUPPORTED, "only moving fills"),
    # Queues of other queue managers.
    ("DIRECT=OS:BETA\\private$\\orders", REMOTE, OutgoingDestination, ""),
    ("DIRECT=TCP:192.0.2.1\\private$\\orders;late", REMOTE, OutgoingDestination, ""),
    (f"PRIVATE={GUID}\\00000001", REMOTE, OutgoingDestination, ""),
    (f"PRIVATE={GUID}\\00000000", REMOTE, NOT_FOUND, "number"),
    ("DIRECT=OS:Private$\\orders", REMOTE, UNSUPPORTED, "Private$ is not a computer"),
    ("DIRECT=HTTP://beta/msmq/orders", REMOTE, UNSUPPORTED, "HTTP transport is not offered"),
    ("DIRECT=IPX:00000001:000000000002\\orders", REMOTE, UNSUPPORTED, "IPX transport is not offered"),
    ("MULTICAST=224.0.0.1:8001", REMOTE, UNSUPPORTED, "cannot be sent to"),
    (f"DL={GUID}", REMOTE, UNSUPPORTED, "cannot be sent to"),
    # With and without a directory.
    (f"PUBLIC={GUID}", LISTED, PublicDestination, ""),
    (f"PUBLIC={GUID}", REMOTE, NO_DIRECTORY, "needs a directory"),
    ("beta\\orders", LISTED, PublicDestination, ""),
    ("beta\\orders", REMOTE, UNSUPPORTED, "send to DIRECT=OS:beta\\orders"),
    ("192.0.2.1\\orders", REMOTE, UNSUPPORTED, "send to DIRECT=TCP:192.0.2.1\\orders"),
    # The path of a private queue is decided by its direct name.
    ("beta\\private$\\orders", REMOTE, DirectDestination, "DIRECT=OS:beta\\private$\\orders"),
    ("192.0.2.1\\private$\\orders", LISTED, DirectDestination, "DIRECT=TCP:192.0.2.1\\private$\\orders"),
    ("beta\\private$\\orders;journal", REMOTE, DirectDestination, "DIRECT=OS:beta\\private$\\orders;JOURNAL"),
)


def parsed(text: str) -> FormatName | PathName:
    return parse_format_name(text) if is_format_name(text) else parse_path_name(text)


class SendDestinationTests(SynchronousTestCase):
    """One line for each kind of name and each set of facts."""

    def test_each_name(self) -> None:
        """A destination, or the status and the reason of a refusal."""
        for text, facts, expected, words in TABLE:
            with self.subTest(name=text, facts=facts):
                found: SendDestination = decide_destination(parsed(text), facts)
                if isinstance(found, DestinationRefusal):
                    self.assertIs(found.status, expected)
                    self.assertIn(words, found.reason)
                    continue
                self.assertIsInstance(found, expected)
                if isinstance(found, DirectDestination):
                    self.assertEqual(str(found.name), words)
                elif isinstance(found, OutgoingDestination | PublicDestination):
                    self.assertEqual(found.name, parsed(text))
