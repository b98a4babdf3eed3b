"""[MS-MQDSSM] 3.1.6.7.1.9: which mSMQSettings a queue manager has to have, and what is changed for that."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.ldap.entries.settings_entries import settings_changes, settings_names
from msmq.directory.ldap.transport.wire import Add, Delete, Entry, Modify

ALPHA = "CN=msmq,CN=ALPHA,CN=Computers,DC=example,DC=com"
SITES = "CN=Sites,CN=Configuration,DC=example,DC=com"
LONDON, PARIS = f"CN=London,{SITES}", f"CN=Paris,{SITES}"
OWN = bytes(range(16))


def configuration(*, routing: bytes = b"TRUE", identifier: bytes | None = OWN) -> Entry:
    """The mSMQConfiguration of ALPHA."""
    values = {"msmqroutingservices": (routing,), "msmqservicetype": (b"1",)}
    return Entry(ALPHA, values if identifier is None else {**values, "objectguid": (identifier,)})


def held(site: str, *, services: bytes = b"1") -> list[Entry]:
    """The entries of a site in which everything is correct, with this mSMQServices."""
    servers, server, settings = settings_names("ALPHA", site)
    values = {
        "objectclass": (b"top", b"mSMQSettings"),
        "msmqqmid": (OWN,),
        "msmqservices": (services,),
        "msmqroutingservice": (b"TRUE",),
        "msmqdsservice": (b"FALSE",),
        "msmqdependentclientservice": (b"FALSE",),
    }
    return [
        Entry(servers, {"objectclass": (b"serversContainer",)}),
        Entry(server, {"objectclass": (b"server",)}),
        Entry(settings, values),
    ]


class SettingsTests(SynchronousTestCase):
    """The changes for a queue manager of one computer."""

    def test_created(self) -> None:
        """A routing server gets one in each site, with what has to be above it."""
        changes = settings_changes(configuration(), [LONDON], [])
        servers, server, settings = settings_names("ALPHA", LONDON)
        self.assertEqual([change.name for change in changes], [servers, server, settings])
        made = changes[2]
        assert isinstance(made, Add)
        self.assertEqual(
            dict(made.values),
            {
                "objectClass": (b"mSMQSettings",),
                "mSMQQMID": (OWN,),
                "mSMQServices": (b"1",),
                "mSMQRoutingService": (b"TRUE",),
                "mSMQDsService": (b"FALSE",),
                "mSMQDependentClientService": (b"FALSE",),
            },
        )

    def test_nothing_to_change(self) -> None:
        """Where all is as it has to be nothing is written."""
        self.assertEqual(settings_changes(configuration(), [LONDON], held(LONDON)), [])

    def test_written_otherwise(self) -> None:
        """The names of entries compare without case and spaces, as a directory compares them."""
        spelled = [Entry(entry.name.lower().replace(",", ", "), entry.values) for entry in held(LONDON)]
        self.assertEqual(settings_changes(configuration(), [LONDON], spelled), [])

    def test_corrected(self) -> None:
        """A value that is not that of the mSMQConfiguration is corrected, and no other is written."""
        changes = settings_changes(configuration(), [LONDON], held(LONDON, services=b"0"))
        _, _, settings = settings_names("ALPHA", LONDON)
        self.assertEqual(changes, [Modify(settings, {"mSMQServices": (b"1",)})])

    def test_moved(self) -> None:
        """The mSMQSettings in a site that the queue manager has left is deleted."""
        changes = settings_changes(configuration(), [PARIS], held(LONDON)[2:])
        self.assertEqual(changes[0], Delete(settings_names("ALPHA", LONDON)[2]))
        self.assertEqual([change.name for change in changes[1:]], list(settings_names("ALPHA", PARIS)))

    def test_no_server(self) -> None:
        """A queue manager without a role has none; the entries of its computer are left alone."""
        changes = settings_changes(configuration(routing=b"FALSE"), [LONDON], held(LONDON))
        self.assertEqual(changes, [Delete(settings_names("ALPHA", LONDON)[2])])
        self.assertEqual(settings_changes(configuration(routing=b"FALSE"), [LONDON], []), [])

    def test_identifier_to_come(self) -> None:
        """Without an objectGUID, which a domain has still to give, mSMQQMID is missing."""
        made = settings_changes(configuration(identifier=None), [LONDON], [])[2]
        assert isinstance(made, Add)
        self.assertNotIn("mSMQQMID", made.values)
