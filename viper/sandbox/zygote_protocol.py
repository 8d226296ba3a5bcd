"""Messages between the parent and its zygote, on their own stream socket."""

from __future__ import annotations

import struct

# (kind, pid, number).
MESSAGE = struct.Struct("<cqq")

# Request: fork one more child.
FORK = b"F"

# Request: fork a child that maps arrays; ``pid`` bytes about them follow, with ``number``
# descriptors.
SHARE = b"A"

# Request and reply: the wait status of a child that has ended (-1 if unknown).
STATUS = b"S"

# Reply to FORK: a pid, with the descriptors wire, trace and (if the system has them) pidfd.
CHILD = b"C"

# Reply to SHARE, as CHILD.
SHARING = b"R"

# Reply in place of any other: the zygote cannot work; ``pid`` bytes of text follow.
FAILED = b"E"
