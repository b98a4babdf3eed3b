"""Shows C{twistd} the queue manager and the bridge.

Every C{twistd} command of the environment imports this file, so it only names modules.
"""

from twisted.application.service import ServiceMaker

msmq = ServiceMaker("msmq", "msmq.service.tap", "An open MSMQ queue manager", "msmq")
msmq_bridge = ServiceMaker(
    "msmq-bridge", "msmq.bridge_program.tap", "Routes between queues and other brokers", "msmq-bridge"
)
