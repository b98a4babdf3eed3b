"""Delivery records: hand-overs to other queue managers, and their acknowledgements."""
