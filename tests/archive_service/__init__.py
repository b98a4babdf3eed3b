"""The archive that a server keeps."""
