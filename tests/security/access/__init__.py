"""Tests of L{msmq.security.access}."""
