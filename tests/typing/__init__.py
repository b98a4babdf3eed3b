"""Types of the public doors, for mypy with and without mypy-zope, and for pyright."""
