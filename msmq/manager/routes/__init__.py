"""Next hops: which session an outgoing queue uses, and where its messages go next."""
