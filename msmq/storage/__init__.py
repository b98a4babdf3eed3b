"""Providers of L{msmq.interfaces.IMessageStore}."""
