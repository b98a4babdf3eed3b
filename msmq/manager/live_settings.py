"""Settings of a running queue manager that can be changed without a restart."""

from __future__ import annotations

import attrs

from msmq.manager.assembly.parts import Parts
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.queues.model import ModelLimits
from msmq.settings import SessionSettings
from msmq.transfer.security.cipher_choice import Preferences
from msmq.transfer.security.signature_rules import SigningPolicy


@attrs.frozen(kw_only=True)
class LiveSettings:
    """Values that L{msmq.manager.service.QueueManagerService.configure} applies, all of them together.

    @ivar session: settings of message transfer; sessions get theirs from their factory.
    @ivar limits: of the queues.
    @ivar events: how many events the event log keeps.
    @ivar delivery_records: the limit on delivery records in kilobytes.
    @ivar send_keys: the limit on message keys.
    @ivar send_key_lifetime: their lifetime in seconds.
    @ivar send_insecure_nacks: [MS-MQQB] 3.1.7.15 SendInsecureNacks.
    @ivar trusted_peers: the addresses that may send unauthenticated messages.
    @ivar encryption: the ciphers.
    @ivar signing: the signatures.
    """

    session: SessionSettings
    limits: ModelLimits
    events: int
    delivery_records: int
    send_keys: int
    send_key_lifetime: float
    send_insecure_nacks: bool
    trusted_peers: TrustedPeers
    encryption: Preferences
    signing: SigningPolicy

    def apply(self, parts: Parts) -> None:
        """Apply these values to each part; they are not checked, so this does not fail."""
        parts.core.model.configure(self.limits)
        parts.core.events.configure(self.events)
        parts.outgoing.deliveries.configure(self.delivery_records)
        parts.applications.keyed.keys.configure(self.send_keys, self.send_key_lifetime)
        parts.outgoing.outbox.configure(send_insecure=self.send_insecure_nacks)
        parts.security.trusted_peers.configure(self.trusted_peers)
        parts.security.encryption.configure(self.encryption)
        parts.security.decryption.configure(self.encryption)
        parts.security.messages.configure(self.signing)
        parts.outgoing.sequences.configure(self.session)
        parts.transfer.source_journal.configure(self.session)
        parts.transfer.idle_queues.configure(self.session)
        parts.outgoing.arrival_commits.history.configure(self.session)
        parts.transfer.express_history.configure(self.session)
