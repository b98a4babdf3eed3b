"""The decoders of message bodies."""
