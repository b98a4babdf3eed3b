"""Shows C{twistd} the queue manager.

Every C{twistd} command of the environment imports this file, so it only names a module.
"""

from twisted.application.service import ServiceMaker

msmq = ServiceMaker("msmq", "msmq.service.tap", "An open MSMQ queue manager", "msmq")
