"""Messages between the parent and its zygote, on a stream socket of their own."""

from __future__ import annotations

import struct

MESSAGE = struct.Struct("<cqq")
"""(kind, pid, number)."""

FORK = b"F"
"""Request: one more child."""

STATUS = b"S"
"""Request and answer: the wait status of a child that has ended (-1 when unknown)."""

CHILD = b"C"
"""Answer to FORK: a pid, with the descriptors wire, trace and (where there are any) pidfd."""

FAILED = b"E"
"""Instead of an answer: the zygote cannot work; ``pid`` bytes of text follow."""
