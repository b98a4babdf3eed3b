"""Start of C{twistd msmq}: options, configuration, composition root."""
