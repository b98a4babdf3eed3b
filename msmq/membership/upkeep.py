"""Periodic directory work: timer events and retries. [MS-MQDMPR] 3.1.2, 3.1.6."""

from __future__ import annotations

from msmq.membership.access import DirectoryAccess
from msmq.membership.initialization import find_directory_servers, provision_again
from msmq.membership.local import HostIdentity
from msmq.membership.objects import QueueManagerObject
from msmq.membership.public_queues import retry_deletions
from msmq.membership.publication import publish_roles
from msmq.membership.requests import Procedure, Store
from msmq.membership.sites import directory_site_gates_update, directory_sites_update, read_sites
from msmq.membership.timers import DirectoryTimer
from msmq.moment import Moment


def expire(access: DirectoryAccess, host: HostIdentity, now: Moment) -> list[Procedure[None]]:
    """Procedures due at C{access.timers.deadline()}, to be run one after the other.

    Periodic timers are restarted.
    """
    return [_event(access, host, timer, now) for timer in access.timers.expired(now)]


def _event(
    access: DirectoryAccess, host: HostIdentity, timer: DirectoryTimer, now: Moment
) -> Procedure[None]:
    if timer is DirectoryTimer.DIRECTORY_ONLINE:
        return ask_again(access, now)
    access.timers.start(timer, now)
    match timer:
        case DirectoryTimer.SITES_UPDATE:
            return directory_sites_update(access)
        case DirectoryTimer.SITE_GATES_UPDATE:
            return _site_gates_update(access)
        case DirectoryTimer.DIRECTORY_SERVER_LIST_UPDATE:
            return _directory_server_list_update(access, host)


def ask_again(access: DirectoryAccess, now: Moment) -> Procedure[None]:
    """Check whether an offline directory is back. [MS-MQDMPR] 3.1.6.5.

    @raise MQError: as L{provision_again}.
    """
    if not access.is_provisioned:
        access.timers.start(DirectoryTimer.DIRECTORY_ONLINE, now)
        yield from provision_again(access)
        if not access.is_provisioned:
            return
        access.timers.stop(DirectoryTimer.DIRECTORY_ONLINE)
    before = access.local.object
    if (yield from access.check_directory_online()):
        yield from _follow_membership(access, before)
        yield from retry_deletions(access)


def _site_gates_update(access: DirectoryAccess) -> Procedure[None]:
    before = access.local.object
    yield from directory_site_gates_update(access)
    yield from access.check_own_objects()
    yield from _follow_membership(access, before)
    yield from retry_deletions(access)


def _follow_membership(access: DirectoryAccess, before: QueueManagerObject) -> Procedure[None]:
    """Adopt the sites that an administrator assigned to this queue manager, and publish its roles there.

    A refusal of the directory is retried and reported at the next start.
    """
    if _membership(access.local.object) != _membership(before):
        yield from read_sites(access)
        yield from publish_roles(access)


def _membership(own: QueueManagerObject) -> tuple[object, ...]:
    """The sites and the roles of a queue manager."""
    return own.site_identifier_list, own.routing_server, own.directory_server, own.supporting_server


def _directory_server_list_update(access: DirectoryAccess, host: HostIdentity) -> Procedure[None]:
    known = access.local.directory_server_list
    yield from find_directory_servers(access, host.domain_name)
    if access.local.directory_server_list != known:
        yield Store([access.local.settings_change()])
