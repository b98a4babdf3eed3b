"""The bridge as a process of its own: C{twistd msmq-bridge}, beside any number of queue managers."""
