"""The C{msmq} command, one file per group of verbs.
"""
