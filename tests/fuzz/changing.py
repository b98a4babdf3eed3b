"""Makes one field of a valid packet or request wrong, as an input says."""

from __future__ import annotations


def changed(data: bytes, change: bytes) -> bytes:
    """Bytes with one field wrong.

    @param change: its offset in two bytes, one for how many bytes it has and what becomes of it, and a
        value; nothing is changed if it is shorter.
    """
    if len(change) < 4 or not data:
        return data
    offset, kind, value = int.from_bytes(change[:2], "little") % len(data), change[2], change[3]
    size = min((1, 2, 4, 8)[kind >> 4 & 3], len(data) - offset)
    field = int.from_bytes(data[offset : offset + size], "little")
    most = (1 << 8 * size) - 1
    match kind & 7:
        case 0:
            field = value
        case 1:
            field += value
        case 2:
            field -= value
        case 3:
            field ^= 1 << value % (8 * size)
        case 4:
            field = most - value
        case 5:
            return data[:offset]
        case 6:
            return data[:offset] + data[offset + size :]
        case _:
            return data[: offset + size] + data[offset:]
    return data[:offset] + (field & most).to_bytes(size, "little") + data[offset + size :]
