"""The full-screen monitor."""
