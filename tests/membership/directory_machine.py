"""A queue manager and its directory, for tests of how the one starts with the other."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.memory import MemoryDirectory
from msmq.errors import MsmqError
from msmq.manager.membership.procedure_runner import DirectoryRunner
from msmq.membership.access import DirectoryAccess
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.initialization import Provisioning, initialize
from msmq.membership.local import HostIdentity, LocalQueueManager
from msmq.membership.objects import (
    EnterpriseObject,
    QueueManagerObject,
    RoutingLinkObject,
    SiteObject,
)
from msmq.membership.queries import equals
from msmq.membership.requests import (
    CreateLocally,
    DirectoryEffect,
    FindDirectoryServers,
    MakeKeys,
    Procedure,
    QueueManagerKeys,
    Store,
)
from msmq.membership.timers import DirectoryTimes
from msmq.membership.upkeep import expire
from msmq.persistence.changes import PutState, RemoveState
from msmq.structures.directory.public_key_blob import KeyAlgorithm, PublicKeyBlob
from msmq.structures.directory.public_keys import (
    MqdsPublicKey,
    MqdsPublicKeys,
    ProviderType,
)
from msmq.structures.status import MQError, Status
from msmq.testing.clock import ManualClock
from tests.membership.directory_builders import ALPHA, ENTERPRISE, OWN, SITE

HOST = HostIdentity("ALPHA", "example.com", UUID(int=0xD0))
WORKGROUP = HostIdentity("ALPHA")
PARIS = SiteObject(identifier=UUID(int=0xC2), name="paris")
LONDON = SiteObject(identifier=SITE, name="london")
GATE = QueueManagerObject(
    identifier=UUID(int=0xA9), computer_name="GATE", site_identifier_list=(SITE,), routing_server=True
)
FAR_GATE = QueueManagerObject(
    identifier=UUID(int=0xA8), computer_name="FAR", site_identifier_list=(PARIS.identifier,)
)
LINK = RoutingLinkObject(
    identifier=UUID(int=0xF1),
    site1_identifier=SITE,
    site2_identifier=PARIS.identifier,
    site_gate_identifier_list=(FAR_GATE.identifier, GATE.identifier),
)
IN_LONDON = attrs.evolve(ALPHA, site_identifier_list=(SITE,))
NOTIFICATION = "non_ldap_capable_queue_manager_notification"


def public_keys(request: MakeKeys, algorithm: KeyAlgorithm) -> MqdsPublicKeys:
    """Numbers of the lengths that were asked for, which a key store would make keys of."""
    return MqdsPublicKeys(
        tuple(
            MqdsPublicKey(
                key.provider_name,
                ProviderType.PROV_RSA_FULL,
                PublicKeyBlob((1 << key.bit_length) - 1, 65537, algorithm=algorithm),
            )
            for key in request.keys
        )
    )


class Machine:
    """A computer: what survives a restart, the directory that it reaches, and what it is asked to do."""

    def __init__(self, *, assigns_identifiers: bool = False) -> None:
        self.clock = ManualClock()
        self.directory = MemoryDirectory(self.clock, assigns_identifiers=assigns_identifiers)
        self.state: dict[str, bytes] = {}
        self.servers: dict[str, list[str]] = {}
        self.performed: list[DirectoryEffect] = []
        self.failing: type[Any] | None = None
        self.access = self.start()

    def start(
        self, *, integrated: bool | None = None, times: DirectoryTimes | None = None
    ) -> DirectoryAccess:
        """A queue manager that knows what was stored, and nothing else."""
        local = LocalQueueManager(QueueManagerObject(identifier=OWN))
        local.restore(self.state)
        if integrated is not None:
            local.directory_integrated = integrated
        self.access = DirectoryAccess(local, DirectoryChanges.FOLLOW, times)
        return self.access

    async def perform(self, effect: DirectoryEffect) -> Any:
        self.performed.append(effect)
        if self.failing is not None and isinstance(effect, self.failing):
            raise MQError(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, "the disk is full")
        match effect:
            case FindDirectoryServers(record):
                return self.servers.get(record, [])
            case MakeKeys():
                return QueueManagerKeys(
                    public_keys(effect, KeyAlgorithm.KEY_EXCHANGE),
                    public_keys(effect, KeyAlgorithm.SIGNATURE),
                )
            case Store() | CreateLocally():
                for change in effect.changes:
                    if isinstance(change, PutState):
                        self.state[change.name] = change.value
                    elif isinstance(change, RemoveState):
                        self.state.pop(change.name, None)
        return None


class MachineTestCase(SynchronousTestCase):
    """Common fixtures of the tests."""

    def setUp(self) -> None:
        self.machine = Machine()
        self.directory = self.machine.directory

    def run_procedure(self, procedure: Procedure[Any]) -> Any:
        runner = DirectoryRunner(self.directory, self.machine.clock, self.machine.perform)
        return self.successResultOf(runner.run(procedure))

    def fails(self, procedure: Procedure[Any], kind: type[MsmqError] = MQError) -> Any:
        runner = DirectoryRunner(self.directory, self.machine.clock, self.machine.perform)
        return self.failureResultOf(runner.run(procedure), kind).value

    def initialization(
        self, host: HostIdentity = HOST, provisioning: Provisioning | None = None
    ) -> Procedure[None]:
        return initialize(self.machine.access, host, self.machine.clock.now(), provisioning)

    def initialize(
        self, host: HostIdentity = HOST, provisioning: Provisioning | None = None
    ) -> LocalQueueManager:
        """Start a queue manager, and answer what it knows then."""
        self.run_procedure(self.initialization(host, provisioning))
        return self.machine.access.local

    def furnish(self, own: QueueManagerObject | None = IN_LONDON) -> None:
        """Fill the directory with two sites and what connects them."""
        for held in (EnterpriseObject(identifier=ENTERPRISE), LONDON, PARIS, GATE, FAR_GATE, LINK, own):
            if held is not None:
                self.directory.add(held)

    def held(self) -> QueueManagerObject:
        """Our object, as the directory has it."""
        read = self.successResultOf(
            self.directory.read(QueueManagerObject, [equals("computer_name", "ALPHA")])
        )
        held: QueueManagerObject = read.object
        return held

    def expire(self) -> None:
        """Do what is due."""
        for procedure in expire(self.machine.access, HOST, self.machine.clock.now()):
            self.run_procedure(procedure)
