"""Messages that leave: expiry, journals, moves, purges, transactions."""
