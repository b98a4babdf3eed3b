"""Shows msmq the store; twistd imports this file at every start, so it does nothing else."""

from journal_store import JournalStorageFactory

journal = JournalStorageFactory()
