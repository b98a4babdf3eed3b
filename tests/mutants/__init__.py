"""Mutants: changes of the product that tests have to notice.

C{table.csv} has one mutation for each rule of the ledger that it names; the tests that cite the rule, alone,
have to fail with it.
C{survivors.csv} has random mutations of the cores that no test notices, each with the reason.
C{python -m tests.mutants --help} tries them, and proposes rows.
"""
