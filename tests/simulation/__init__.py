"""Simulation of whole estates: queue managers on their real store, with every fault, under one seed.

A seed is a plan: the shape of the estate, its limits and timers, and steps of applications, operators and
faults at their times.
A plan is a run, the same to the byte, which records a history for L{tests.history_checker}.
C{python -m tests.simulation --help} runs one seed or many.
"""
