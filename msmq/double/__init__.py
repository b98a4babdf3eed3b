"""A fault-injecting double: a scripted faulty receiver, for tests of senders."""
