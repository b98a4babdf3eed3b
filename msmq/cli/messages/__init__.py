"""Verbs about messages: send, receive, browse, move, explain, and the transactions they are in."""
