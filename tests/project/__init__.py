"""The project itself: documents, examples, packages, names, commit messages."""
