"""Coverage-guided fuzzing of everything that reads input of peers.

C{make fuzz} drives the targets with atheris; the suite replays their corpus without it.
"""
