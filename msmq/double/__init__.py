"""A fault-injecting double: a receiver of messages that misbehaves as a script says, for tests of senders."""
