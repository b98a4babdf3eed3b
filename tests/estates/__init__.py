"""Whole estates: the scenarios of the system overview ([MS-MQOD]), and their interplay."""
