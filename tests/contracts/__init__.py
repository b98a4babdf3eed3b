"""Contract tests of the interfaces, for built-in providers and plugins: one mixin for each interface."""
