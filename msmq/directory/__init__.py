"""The directories that come with msmq."""
