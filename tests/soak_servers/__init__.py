"""Three servers with a relay under load for a long time: what they use comes back, or has a reason."""
