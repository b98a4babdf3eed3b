"""Messages that arrive: admission, deserialization, acknowledgements, reports."""
