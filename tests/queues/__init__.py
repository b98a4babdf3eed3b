"""The pure queue model: driven by calls and moments, with no store and no reactor."""
