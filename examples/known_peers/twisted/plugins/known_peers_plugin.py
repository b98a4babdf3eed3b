"""Shows C{twistd} the session policy."""

from known_peers import KnownPeersFactory

known_peers = KnownPeersFactory()
