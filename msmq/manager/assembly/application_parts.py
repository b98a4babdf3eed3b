"""What applications and operators ask of a queue manager."""

from __future__ import annotations

import attrs

from msmq.manager.administration.queue_administration import Administration
from msmq.manager.applications.keyed_messages import KeyedMessages
from msmq.manager.applications.message_browser import MessageBrowser
from msmq.manager.applications.message_copies import CopySender
from msmq.manager.applications.message_log import MessageLogs
from msmq.manager.applications.message_operations import MessageOperations
from msmq.manager.applications.queue_opener import QueueOpener
from msmq.manager.applications.reads import Reads
from msmq.manager.applications.search import Search
from msmq.manager.applications.send_keys import SendKeys
from msmq.manager.applications.sender import MessageSender
from msmq.manager.applications.transactions import TransactionListener, Transactions
from msmq.manager.assembly.core import ManagerCore
from msmq.manager.assembly.directory_parts import MembershipParts
from msmq.manager.assembly.outgoing_parts import OutgoingParts
from msmq.manager.assembly.transfer_parts import TransferParts
from msmq.manager.drains.drains import QueueDrains
from msmq.manager.expired_state import ExpiredState
from msmq.manager.securing.security_descriptors import SecurityDescriptors
from msmq.manager.securing.signatures import Signer


@attrs.frozen(kw_only=True)
class ApplicationParts:
    """Queues, messages and transactions for applications and operators.

    @ivar administration: creates, changes and deletes queues.
    @ivar keyed: messages that are sent under keys.
    @ivar expired_state: removes keys and peers whose time is over.
    @ivar search: finds messages by their identifiers, and dead letters.
    @ivar browser: pages of the messages of a queue.
    @ivar logs: message logs.
    @ivar message_administration: removes, moves, copies and requeues messages.
    @ivar opening: opens queues.
    @ivar drains: moves the messages of queues to other queue managers.
    """

    administration: Administration
    keyed: KeyedMessages
    expired_state: ExpiredState
    transactions: Transactions
    search: Search
    browser: MessageBrowser
    logs: MessageLogs
    message_administration: MessageOperations
    sender: MessageSender
    opening: QueueOpener
    drains: QueueDrains


def make_application_parts(
    core: ManagerCore,
    membership: MembershipParts | None,
    outgoing: OutgoingParts,
    signer: Signer,
    descriptors: SecurityDescriptors | None,
    transfer: TransferParts,
    send_keys: SendKeys,
    listener: TransactionListener,
) -> ApplicationParts:
    """Make what applications and operators use.

    @param listener: is notified of transactions.
    """
    performer, model, events = core.performer, core.model, core.events
    reactor, new_identifier = core.runtime.reactor, core.runtime.new_identifier
    outbox, destinations, departures = outgoing.outbox, outgoing.destinations, outgoing.departures
    administration = Administration(
        performer,
        departures,
        outgoing.local,
        None if membership is None else membership.integration,
        descriptors,
        reactor,
        new_identifier,
    )
    keyed = KeyedMessages(core.runtime.clock, send_keys)
    transactions = Transactions(performer, outbox, departures, outgoing.sequences, events, keyed, listener)
    search = Search(performer, outbox, destinations, signer, events, transactions, reactor, new_identifier)
    copies = CopySender(model.identifier, outbox, destinations, transactions, new_identifier)
    sender = MessageSender(model.identifier, outbox, transactions, keyed, new_identifier)
    opening = QueueOpener(
        performer, Reads(performer, outbox), sender, transactions, administration, destinations
    )
    return ApplicationParts(
        administration=administration,
        keyed=keyed,
        expired_state=ExpiredState(performer, keyed, outgoing.peers, reactor),
        transactions=transactions,
        search=search,
        browser=MessageBrowser(performer, departures.kept),
        logs=MessageLogs(performer, copies, reactor),
        message_administration=MessageOperations(performer, departures, events, search, copies, destinations),
        sender=sender,
        opening=opening,
        drains=QueueDrains(
            performer,
            outbox,
            destinations,
            transactions,
            opening,
            events,
            transfer.source_journal,
            transfer.kept,
            new_identifier,
            lambda: transfer.outgoing_holds.suspicion,
        ),
    )
