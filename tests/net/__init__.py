"""The tests of msmq.net."""
