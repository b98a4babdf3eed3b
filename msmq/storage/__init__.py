"""Message stores: implementations of L{msmq.interfaces.IMessageStore}."""
