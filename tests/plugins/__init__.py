"""Plugins: which one is selected, what is reported of those that cannot be used, and what each kind does."""
