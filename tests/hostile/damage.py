"""Damage to files and messages: cut off, with flipped bits, and with bytes inserted, taken out or repeated."""

from __future__ import annotations

from random import Random


def damaged(content: bytes, random: Random) -> bytes:
    """The content with one kind of damage."""
    how = random.randrange(5)
    at = random.randrange(len(content) + 1)
    if how == 0:
        return content[:at]
    if how == 1 and content:
        flipped = bytearray(content)
        for _ in range(random.choice((1, 1, 2, 8, 64))):
            flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
        return bytes(flipped)
    if how == 2:
        return content[:at] + random.randbytes(random.choice((1, 4, 100))) + content[at + random.choice((0, 0, 5)) :]
    if how == 3:
        return content[:at] + content[at // 2 :]
    return random.randbytes(random.choice((0, 1, 30, 1000)))
