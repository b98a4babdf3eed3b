"""[MS-MQDMPR] 3.1.7.1.3.1: the default access rights of a new queue."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.default_security import documented_security, queue_manager_security, strict_security
from msmq.windows.sddl import format_sddl, parse_sddl
from msmq.wire.sid import parse_sid

OWNER = parse_sid("S-1-5-21-1-2-3-1001")
GUEST = parse_sid("S-1-5-21-1-2-3-501")
MACHINE = parse_sid("S-1-5-21-1-2-3-1501")
TEXT, OTHER = "S-1-5-21-1-2-3-1001", "S-1-5-21-1-2-3-1002"


class DocumentedTests(SynchronousTestCase):
    """The rules of the document."""

    def made(
        self, creator: bytes = OWNER, *, known: bool = True, machine: bytes = b"", supplied: str = ""
    ) -> str:
        return format_sddl(
            documented_security(
                creator,
                is_domain_user=known,
                machine=machine,
                supplied=parse_sddl(supplied) if supplied else None,
            )
        )

    def test_of_a_user_of_the_domain(self) -> None:
        """Everyone may peek, and the owner may do everything (MQDMPR-3.1.7.1.3.1-05)."""
        self.assertEqual(self.made(), f"O:{TEXT}G:{TEXT}D:(A;;0x20020;;;WD)(A;;0xf003f;;;{TEXT})")

    def test_of_other_accounts(self) -> None:
        """Everyone has all rights, and it has no owner; the same for the guest of a domain.

        MQDMPR-3.1.7.1.3.1-03, MQDMPR-3.1.7.1.3.1-04.
        """
        self.assertEqual(self.made(known=False), "O:ANG:AND:(A;;0xf003f;;;WD)")
        guest = "S-1-5-21-1-2-3-501"
        self.assertEqual(self.made(GUEST), f"O:{guest}G:{guest}D:(A;;0xf003f;;;WD)")

    def test_its_computer_may_look(self) -> None:
        """If the directory has its SID; its entry precedes that of the owner.

        MQDMPR-3.1.7.1.3.1-06, MQDMPR-3.1.7.1.3.1-09.
        """
        look = f"(A;;0x20020;;;{'S-1-5-21-1-2-3-1501'})"
        self.assertEqual(
            self.made(machine=MACHINE),
            f"O:{TEXT}G:{TEXT}D:(A;;0x20020;;;WD){look}(A;;0xf003f;;;{TEXT})",
        )
        self.assertEqual(self.made(known=False, machine=MACHINE), f"O:ANG:AND:(A;;0xf003f;;;WD){look}")

    def test_what_is_supplied_counts(self) -> None:
        """Its owner, its DACL instead of the default entries, and its SACL (MQDMPR-3.1.7.1.3.1-02)."""
        dacl, sacl = "D:(A;;0x4;;;AU)", "S:(AU;SA;0x4;;;WD)"
        self.assertEqual(self.made(supplied=dacl), f"O:{TEXT}G:{TEXT}{dacl}")
        self.assertEqual(self.made(supplied=f"O:{OTHER}"), self.made(parse_sid(OTHER)))
        self.assertEqual(self.made(supplied="D:"), f"O:{TEXT}G:{TEXT}D:")
        self.assertEqual(
            self.made(supplied=sacl), f"O:{TEXT}G:{TEXT}D:(A;;0x20020;;;WD)(A;;0xf003f;;;{TEXT}){sacl}"
        )
        self.assertEqual(self.made(known=False, supplied=f"O:{OTHER}{dacl}"), f"O:ANG:AN{dacl}")


class OwnTests(SynchronousTestCase):
    """Rules that are not in the document."""

    def test_strict(self) -> None:
        """The owner alone, whichever account it is, unless a list is supplied."""
        self.assertEqual(format_sddl(strict_security(OWNER)), f"O:{TEXT}G:{TEXT}D:(A;;0xf003f;;;{TEXT})")
        supplied = parse_sddl(f"O:{OTHER}")
        self.assertEqual(
            format_sddl(strict_security(OWNER, supplied)), f"O:{OTHER}G:{OTHER}D:(A;;0xf003f;;;{OTHER})"
        )
        supplied = parse_sddl("D:(A;;0x4;;;WD)")
        self.assertEqual(format_sddl(strict_security(OWNER, supplied)), f"O:{TEXT}G:{TEXT}D:(A;;0x4;;;WD)")

    def test_of_a_queue_manager(self) -> None:
        """[MS-MQDSSM] 3.1.6.1.1.8: everyone may peek, its owner and its computer may do everything."""
        self.assertEqual(
            format_sddl(queue_manager_security(OWNER, MACHINE)),
            f"O:{TEXT}G:{TEXT}D:(A;;0x20020;;;WD)(A;;0xf00f7;;;S-1-5-21-1-2-3-1501)(A;;0xf00f7;;;{TEXT})",
        )
        self.assertEqual(
            format_sddl(queue_manager_security(OWNER)),
            f"O:{TEXT}G:{TEXT}D:(A;;0x20020;;;WD)(A;;0xf00f7;;;{TEXT})",
        )
