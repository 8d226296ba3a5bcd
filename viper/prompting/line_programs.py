"""Takes a line program, ``NAME=MODULE(argument=value,…)`` a line, out of what a model wrote.

Source: the manners of VisProg's and CLOVA's models: lines numbered as steps, a heading before
them, the next query after them.
"""

from __future__ import annotations

import re

_LEAD = re.compile(
    r"""^\s*(?:>{1,3}\s*|[-*]\s+|\d+\s*[.):]\s*)?
        (?:\**\s*step\s*\d+\s*(?:program)?\s*[.:,)]?\s*\**\s*)?
        (?:\**\s*program\s*:\s*\**\s*)?`?""",
    re.VERBOSE | re.IGNORECASE,
)
_CALL = re.compile(r"^[A-Za-z_]\w*\s*=\s*[A-Z][A-Z_]*\s*\(")
_LAST = re.compile(r"^FINAL_(?:RESULT|ANSWER)\s*=")


def line_program(text: str) -> str | None:
    """The first line program in a text; None where no line is one of such a program.

    It ends with its ``FINAL_RESULT`` or ``FINAL_ANSWER``, or where other text follows after an
    empty line. Comments and prose between its lines are dropped; what is inside a line stays as
    it was written.
    """
    found: list[str] = []
    gap = False
    for line in text.splitlines():
        bare = _LEAD.sub("", line, count=1).rstrip().rstrip("`").rstrip()
        if _CALL.match(bare):
            found.append(bare.rstrip(";"))
            if _LAST.match(bare):
                break
            gap = False
        elif found and not line.strip():
            gap = True
        elif found and gap and not line.lstrip().startswith(("#", "```", "~~~")):
            break
    return "\n".join(found) or None
