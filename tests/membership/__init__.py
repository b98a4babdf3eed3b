"""Tests of msmq.membership."""
