"""The control API: transactions and their decisions."""
