"""Messages from and to other queue managers."""
