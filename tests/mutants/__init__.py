"""Mutants: changes of the product that tests have to notice.

C{rules} has a table for each document: for each rule that it names one mutation that breaks the rule, with
which the tests that cite the rule, alone, have to fail.
C{survivors.csv} has random mutations of the cores that no test notices, each with the reason.
C{python -m tests.mutants --help} tries them, and proposes rows.
"""
