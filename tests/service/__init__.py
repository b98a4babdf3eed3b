"""The tests of msmq.service."""
