"""Messages between the parent and its zygote, on their own stream socket."""

from __future__ import annotations

import struct

MESSAGE = struct.Struct("<cqq")
"""(kind, pid, number)."""

FORK = b"F"
"""Request: fork one more child."""

SHARE = b"A"
"""Request: fork a child that maps arrays; ``pid`` bytes about them follow, with ``number``
descriptors."""

STATUS = b"S"
"""Request and reply: the wait status of a child that has ended (-1 if unknown)."""

CHILD = b"C"
"""Reply to FORK: a pid, with the descriptors wire, trace and (if the system has them) pidfd."""

SHARING = b"R"
"""Reply to SHARE, as CHILD."""

FAILED = b"E"
"""Reply in place of any other: the zygote cannot work; ``pid`` bytes of text follow."""
