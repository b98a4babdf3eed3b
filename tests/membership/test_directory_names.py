"""Names that only the directory can explain."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.membership.access import DirectoryAccess
from msmq.membership.names import (
    MOST_ELEMENTS,
    QueuePath,
    UnresolvedList,
    expand_format_name,
    get_queue_path,
    read_machine_sid,
)
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.queries import equals
from msmq.membership.requests import (
    AskDirectory,
    DirectoryEffect,
    DirectoryRequest,
    Outcome,
    ReadObject,
    ReadObjectSid,
    ResolveDistributionList,
)
from msmq.structures.names.format_name import (
    DistributionListFormatName,
    FormatName,
    PublicFormatName,
    parse_format_name,
    parse_format_names,
)
from msmq.structures.status import MQError, Status
from tests.membership.directory_builders import (
    ALPHA,
    DISCONNECTED,
    FAILED,
    NOT_FOUND,
    ORDERS,
    OWN,
    QUEUE,
    access,
    found,
    play,
    replies,
)

BETA = QueueManagerObject(identifier=UUID(int=0xBE), computer_name="BETA")
REMOTE = QueueObject(identifier=UUID(int=0xB2), pathname="gamma\\bills")
PATHS = {16: "ALPHA\\private$\\orders"}


class GetQueuePathTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.1.26."""

    def ask(
        self, name: str, *outcomes: Outcome, directory: DirectoryAccess | None = None
    ) -> tuple[QueuePath, list[DirectoryRequest]]:
        procedure = get_queue_path(directory or access(ORDERS), parse_format_name(name), PATHS.get)
        path, played = play(procedure, replies(*outcomes))
        return path, played.requests

    def test_direct(self) -> None:
        """MQDMPR-3.1.7.1.26-02: a direct name says it itself, also of journals and subqueues."""
        for name, path, machine in (
            ("DIRECT=OS:h\\private$\\q", "h\\private$\\q", "h"),
            ("DIRECT=TCP:10.0.0.1\\q", "10.0.0.1\\q", "10.0.0.1"),
            ("DIRECT=TCP:10.0.0.1\\q;journal", "10.0.0.1\\q;JOURNAL", "10.0.0.1"),
            ("DIRECT=OS:h\\q;sub", "h\\q;sub", "h"),
            ("DIRECT=OS:h\\system$;deadletter", "h\\system$;DEADLETTER", "h"),
            (
                "DIRECT=http://web.example.com/msmq/private$/q",
                "web.example.com\\private$\\q",
                "web.example.com",
            ),
            ("DIRECT=https://web.example.com:8443/msmq\\q", "web.example.com\\q", "web.example.com"),
        ):
            self.assertEqual(self.ask(name), (QueuePath(path, machine), []), name)

    def test_public(self) -> None:
        """MQDMPR-3.1.7.1.26-03: a public name is read from the directory, and so is its computer."""
        path, requests = self.ask(f"PUBLIC={REMOTE.identifier}", found(REMOTE))
        self.assertEqual(path, QueuePath("gamma\\bills", "gamma"))
        self.assertEqual(requests, [ReadObject(QueueObject, (equals("identifier", REMOTE.identifier),))])

    def test_private_of_another(self) -> None:
        """MQDMPR-3.1.7.1.26-05: of a private queue elsewhere the computer is known, and not the path."""
        path, requests = self.ask(f"PRIVATE={BETA.identifier}\\10", found(BETA))
        self.assertEqual(path, QueuePath("", "BETA"))
        self.assertEqual(requests, [ReadObject(QueueManagerObject, (equals("identifier", BETA.identifier),))])

    def test_private_of_ours(self) -> None:
        """MQDMPR-3.1.7.1.26-05: of a private queue of ours both are known, with any directory or none."""
        for directory in (access(), access(offline=True), access(integrated=False)):
            answered = self.ask(f"PRIVATE={OWN}\\10", directory=directory)
            self.assertEqual(answered, (QueuePath("ALPHA\\private$\\orders", "ALPHA"), []))
            self.assertEqual(
                self.ask(f"PRIVATE={OWN}\\11", directory=directory), (QueuePath("", "ALPHA"), [])
            )

    def test_unknown_name(self) -> None:
        """MQDMPR-3.1.7.1.26-04: a name that the directory does not know is not a format name."""
        for name in (f"PUBLIC={REMOTE.identifier}", f"PRIVATE={BETA.identifier}\\10"):
            for outcome in (NOT_FOUND, DISCONNECTED, FAILED):
                error = self.assertRaises(MQError, self.ask, name, outcome)
                self.assertIs(error.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)
                self.assertIn(outcome.detail, error.detail)
                self.assertIn(name[:8], error.detail)

    def test_workgroup(self) -> None:
        """Without a directory no public name is known."""
        directory = access(ORDERS, integrated=False)
        error = self.assertRaises(MQError, self.ask, f"PUBLIC={QUEUE}", directory=directory)
        self.assertIs(error.status, Status.MQ_ERROR_ILLEGAL_FORMATNAME)

    def test_offline(self) -> None:
        """Offline our own public queues are known."""
        path, _ = self.ask(f"PUBLIC={QUEUE}", directory=access(ORDERS, offline=True))
        self.assertEqual(path, QueuePath("ALPHA\\orders", "ALPHA"))

    def test_other_names(self) -> None:
        """MQDMPR-3.1.7.1.26-01: other names are ignored, without an error."""
        for name in (
            f"MACHINE={OWN};DEADLETTER",
            f"CONNECTOR={OWN}",
            "MULTICAST=234.1.1.1:8001",
            f"DL={OWN}",
            f"PUBLIC={QUEUE};JOURNAL",
            f"PRIVATE={OWN}\\10;JOURNAL",
        ):
            self.assertEqual(self.ask(name), (QueuePath("", ""), []), name)


LISTS = [DistributionListFormatName(UUID(int=number)) for number in range(1, 6)]
QUEUES = [PublicFormatName(UUID(int=number)) for number in range(11, 16)]


class ExpandFormatNameTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.3.8."""

    def expand(
        self,
        names: str,
        members: dict[DistributionListFormatName, Sequence[FormatName]] | None = None,
        *,
        integrated: bool = True,
    ) -> str:
        lists = members or {}

        def reply(effect: DirectoryEffect) -> Outcome:
            match effect:
                case AskDirectory(ResolveDistributionList(name)) if name in lists:
                    return Outcome(value=lists[name])
            return NOT_FOUND

        procedure = expand_format_name(access(integrated=integrated), parse_format_names(names))
        expanded, _ = play(procedure, reply)
        return ",".join(map(str, expanded))

    def refused(
        self, names: str, members: dict[DistributionListFormatName, Sequence[FormatName]], status: Status
    ) -> str:
        error = self.assertRaises(MQError, self.expand, names, members)
        self.assertIs(error.status, status)
        detail: str = error.detail
        return detail

    def test_single_name(self) -> None:
        """MQDMPR-3.1.7.3.8-01: one name that is not a list stands for itself."""
        for name in (
            "DIRECT=OS:h\\q",
            str(QUEUES[0]),
            f"PRIVATE={str(OWN).upper()}\\00000010",
            f"MACHINE={str(OWN).upper()};DEADLETTER",
            "MULTICAST=234.1.1.1:8001",
        ):
            self.assertEqual(self.expand(name, integrated=False), name)

    def test_nested_lists(self) -> None:
        """MQDMPR-3.1.7.3.8-02: the members of a list replace it, those of lists in it as well."""
        members: dict[DistributionListFormatName, Sequence[FormatName]] = {
            LISTS[0]: (LISTS[1], QUEUES[3]),
            LISTS[1]: (QUEUES[1], LISTS[2]),
            LISTS[2]: (QUEUES[2],),
        }
        expected = ",".join(str(name) for name in sorted([QUEUES[0], *QUEUES[1:4]], key=str))
        self.assertEqual(self.expand(f"{QUEUES[0]},{LISTS[0]}", members), expected)

    def test_order_and_duplicates(self) -> None:
        """MQDMPR-3.1.7.3.8-04 MQDMPR-3.1.7.3.8-05: sorted without case, each once, with commas between."""
        names = "DIRECT=OS:b\\q,DIRECT=OS:A\\q,DIRECT=OS:B\\Q,DIRECT=OS:c\\q"
        self.assertEqual(self.expand(names), "DIRECT=OS:A\\q,DIRECT=OS:b\\q,DIRECT=OS:c\\q")

    def test_one_is_left(self) -> None:
        """MQDMPR-3.1.7.3.8-05: what comes to one queue is the name of that queue, whatever can be done
        with it.
        """
        journal = parse_format_name(f"{QUEUES[0]};JOURNAL")
        self.assertEqual(self.expand(str(LISTS[0]), {LISTS[0]: (journal, journal)}), str(journal))
        self.assertEqual(self.expand(str(LISTS[0]), {LISTS[0]: (QUEUES[0],)}), str(QUEUES[0]))
        self.assertEqual(self.expand("DIRECT=OS:h\\q,DIRECT=OS:H\\Q"), "DIRECT=OS:h\\q")

    def test_unknown_list(self) -> None:
        """MQDMPR-3.1.7.3.8-03: a list that cannot be resolved fails the whole name, wherever it stands."""
        unsupported = Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
        for names, members in (
            (str(LISTS[0]), {}),
            (f"{QUEUES[0]},{LISTS[0]}", {}),
            (str(LISTS[0]), {LISTS[0]: (QUEUES[0], LISTS[1])}),
        ):
            detail = self.refused(names, dict(members), unsupported)
            self.assertIn("ObjectNotFound", detail)

    def test_why_a_list_is_not_resolved(self) -> None:
        """The error says what the directory does, and whether it is away."""
        for outcome, detail, is_away in (
            (NOT_FOUND, "nowhere (ObjectNotFound)", False),
            (DISCONNECTED, "cut (DirectoryNotConnected)", True),
            (attrs.evolve(FAILED, detail=""), "the directory does not say why (GenericError)", False),
        ):
            procedure = expand_format_name(access(), [LISTS[0]])
            error = self.assertRaises(UnresolvedList, play, procedure, replies(outcome))
            self.assertEqual(error.detail, f"{LISTS[0]} cannot be resolved: {detail}")
            self.assertIs(error.is_away, is_away)

    def test_no_members(self) -> None:
        """A list without members stands for nothing, and that is refused."""
        unsupported = Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
        self.refused(str(LISTS[0]), {LISTS[0]: ()}, unsupported)
        self.refused(str(LISTS[0]), {LISTS[0]: (LISTS[1],), LISTS[1]: (LISTS[0],)}, unsupported)

    def test_member_that_is_read_only(self) -> None:
        """A journal among several queues is refused; it cannot be sent to."""
        journal = parse_format_name(f"{QUEUES[0]};JOURNAL")
        detail = self.refused(
            str(LISTS[0]),
            {LISTS[0]: (journal, QUEUES[1])},
            Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION,
        )
        self.assertIn(str(journal), detail)

    def test_too_many(self) -> None:
        """A list of more queues than can be open is refused."""
        many = tuple(PublicFormatName(UUID(int=number)) for number in range(1, MOST_ELEMENTS + 2))
        self.refused(str(LISTS[0]), {LISTS[0]: many}, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        enough = {LISTS[0]: many[1:]}
        self.assertEqual(self.expand(str(LISTS[0]), dict(enough)).count(","), MOST_ELEMENTS - 1)

    def test_workgroup(self) -> None:
        """Without a directory no list can be resolved; several names need none."""
        self.assertRaises(MQError, self.expand, str(LISTS[0]), {LISTS[0]: (QUEUES[0],)}, integrated=False)
        names = f"{QUEUES[0]},{QUEUES[1]}"
        self.assertEqual(self.expand(names, integrated=False), names)

    def test_no_name(self) -> None:
        """There is nothing to expand in nothing."""
        self.assertRaises(LocalProtocolError, play, expand_format_name(access(), ()))

    @given(st.lists(st.lists(st.sampled_from([*LISTS, *QUEUES]), max_size=5), min_size=5, max_size=5))
    def test_any_lists(self, contents: list[list[FormatName]]) -> None:
        """Lists that contain each other in any way yield the queues that can be reached, each once."""
        members = dict(zip(LISTS, contents, strict=True))
        reachable: set[FormatName] = {LISTS[0]}
        while True:
            inner = [name for found in reachable if found in LISTS for name in members[found]]
            if reachable.issuperset(inner):
                break
            reachable.update(inner)
        expected = sorted(str(name) for name in reachable if name in QUEUES)
        try:
            self.assertEqual(self.expand(str(LISTS[0]), dict(members)).split(","), expected)
        except MQError:
            self.assertEqual(expected, [])


class MachineSidTests(SynchronousTestCase):
    """The directory data for the default security descriptor of a queue."""

    def test_sid(self) -> None:
        """MQDMPR-3.1.7.1.3.1-01: the SID of the computer if a directory has it, else none."""
        sid, played = play(read_machine_sid(access(), "ALPHA"), replies(Outcome(value=b"\1\2")))
        self.assertEqual((sid, played.requests), (b"\1\2", [ReadObjectSid("ALPHA")]))
        for outcome in (NOT_FOUND, DISCONNECTED):
            self.assertEqual(play(read_machine_sid(access(), "ALPHA"), replies(outcome))[0], b"")
        sid, played = play(read_machine_sid(access(integrated=False), "ALPHA"))
        self.assertEqual((sid, played.effects), (b"", []))


class OwnNameTests(SynchronousTestCase):
    """Which computer names mean this queue manager."""

    def test_names(self) -> None:
        """Its own two and the full stop, in whichever case."""
        local = access(own=attrs.evolve(ALPHA, qualified_computer_name="alpha.example.com")).local
        for name in ("alpha", "ALPHA.Example.com", "."):
            self.assertTrue(local.is_own_name(name), name)
        for name in ("beta", "alpha.example.org", ""):
            self.assertFalse(local.is_own_name(name), name)
