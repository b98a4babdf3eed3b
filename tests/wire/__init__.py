"""Tests of msmq.wire."""
