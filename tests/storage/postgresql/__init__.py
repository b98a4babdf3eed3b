"""The PostgreSQL store: history, damage, crashes, servers that vanish."""
