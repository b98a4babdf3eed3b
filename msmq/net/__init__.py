"""Every Twisted Protocol, Factory and DatagramProtocol; thin callers of the pure cores."""
