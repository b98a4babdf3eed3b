"""What C{twistd msmq} starts: options, configuration, and the composition root."""
