"""Bytes on the wire: the bounds-checked Reader and Writer, the stream framer, GUIDs and SIDs.

The lowest layer; it imports only the standard library, attrs and L{msmq.errors}.
"""
