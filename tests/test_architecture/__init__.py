"""The rules of the source tree that a machine can check: imports, wiring, names and files.

Each check is also given an offending snippet, so that it cannot pass because it finds nothing.
"""
