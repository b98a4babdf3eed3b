"""The resources of the control API: one file for each family of paths."""
