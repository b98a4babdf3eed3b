"""Public doubles for tests of brokers that build on msmq: clock, store, network, builders."""
