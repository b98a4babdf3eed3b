"""What the cores ask a message store to keep: changes, queue definitions, state records."""
