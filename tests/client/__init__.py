"""Tests of L{msmq.client}."""
