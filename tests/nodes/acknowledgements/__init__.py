"""OrderAcks, FinalAcks and administration acknowledgements, true and forged."""
