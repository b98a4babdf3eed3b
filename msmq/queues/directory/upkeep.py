"""[MS-MQDMPR] 3.1.2 and 3.1.6 what is done about the directory as time passes."""

from __future__ import annotations

from msmq.moment import Moment
from msmq.queues.directory.access import DirectoryAccess
from msmq.queues.directory.initialization import find_directory_servers, provision_again
from msmq.queues.directory.local import HostIdentity
from msmq.queues.directory.public_queues import retry_deletions
from msmq.queues.directory.requests import Procedure, Store
from msmq.queues.directory.sites import directory_site_gates_update, directory_sites_update
from msmq.queues.directory.timers import DirectoryTimer


def expire(access: DirectoryAccess, host: HostIdentity, now: Moment) -> list[Procedure[None]]:
    """What is to be done now that C{access.timers.deadline()} has come; to be run one after the other.

    The timers of what is done again and again run again.
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
    """[MS-MQDMPR] 3.1.6.5 see whether a directory that was away is back.

    @raise MQError: as L{provision_again}.
    """
    if not access.is_provisioned:
        access.timers.start(DirectoryTimer.DIRECTORY_ONLINE, now)
        yield from provision_again(access)
        if not access.is_provisioned:
            return
        access.timers.stop(DirectoryTimer.DIRECTORY_ONLINE)
    if (yield from access.check_directory_online()):
        yield from retry_deletions(access)


def _site_gates_update(access: DirectoryAccess) -> Procedure[None]:
    yield from directory_site_gates_update(access)
    yield from access.check_own_objects()
    yield from retry_deletions(access)


def _directory_server_list_update(access: DirectoryAccess, host: HostIdentity) -> Procedure[None]:
    known = access.local.directory_server_list
    yield from find_directory_servers(access, host.domain_name)
    if access.local.directory_server_list != known:
        yield Store([access.local.settings_change()])
