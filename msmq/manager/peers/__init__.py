"""Message transfer with other queue managers."""
