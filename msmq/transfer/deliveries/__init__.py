"""Records of hand-overs to other queue managers, and of the acknowledgements that came back."""
