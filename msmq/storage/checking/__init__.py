"""Offline verification and repair of message stores."""
