"""Coverage-guided fuzzing of everything that reads what strangers send.

C{make fuzz} drives the targets with atheris; the suite replays their corpus without it.
"""
