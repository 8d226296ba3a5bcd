"""Boxes that a user marks on the picture as examples (``--like``), and the program that needs them.

The program of a query gets them as the argument ``marked``. A query that only asks for what looks
like them, "how many of these?", is answered by a program of this module, without a language model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from viper.errors import UsageError
from viper.models.media import Media
from viper.schema import PixelBox, Query, Trial
from viper.strategies.base import Components, RunContext
from viper.strategies.program import Generation, run_program
from viper.tools.tool_functions import MAX_EXAMPLES

_PROGRAM = """\
def execute_command(image, marked):
    return {}
"""
_VALUES = {
    "question": "len(find_like(marked))",
    "tag": "find_like(marked)",
    "ground": "find_like(marked)[0]",
}

# Words that point at the examples and end the query; what follows them is a condition, which a
# program of a language model must judge: "how many of these are broken?".
_POINTS = re.compile(
    r"^((?P<counts>how many|count|(the )?number of)|find|show( me)?|mark|tag|locate|all|every|each|"
    r"more)\b"
    r"[\w\s-]*\b(these|those|them|this|that|such|like it)( (one|object|thing|cell)s?)?"
    r"( are there| do you see| can you see)?( (in|on) (the|this) (picture|image|photo))?[\s.?!]*$"
)


def box_of(value: Sequence[float] | str, name: str) -> PixelBox:
    """Return a box (x0, y0, x1, y1) of four numbers, or of a text as ``10,20,40,60``.

    Args:
        name: of the value, for the message.

    Raises:
        UsageError: it is no box.
    """
    try:
        x0, y0, x1, y1 = map(float, value.split(",") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        x0 = y0 = x1 = y1 = math.nan  # below nothing
    if not (-math.inf < x0 < x1 < math.inf and -math.inf < y0 < y1 < math.inf):
        raise UsageError(
            f"{name} {str(value)[:60]!r}: expected a box, x0,y0,x1,y1 with x0 < x1 and y0 < y1, in "
            "pixels from the top-left corner"
        )
    return (x0, y0, x1, y1)


def boxes_of(like: Iterable[Sequence[float] | str]) -> tuple[PixelBox, ...]:
    """Return the boxes of examples; see :func:`box_of`.

    Raises:
        UsageError: one is no box, or there are more than four.
    """
    boxes = tuple(box_of(each, "like") for each in like)
    if len(boxes) > MAX_EXAMPLES:
        raise UsageError(f"like has {len(boxes)} boxes; at most {MAX_EXAMPLES} are taken")
    return boxes


def with_marks(query: Query, like: tuple[PixelBox, ...], media: Media) -> Query:
    """Return the query with the marked boxes; "these" without a task then asks for all boxes.

    Raises:
        UsageError: there is not one picture, or a box reaches beyond it.
    """
    if not like:
        return query
    if media.kind != "image":
        raise UsageError(f"like marks examples in one picture; the query has {media.kind}")
    height, width = media.images[0].shape[:2]
    for x0, y0, x1, y1 in like:
        if x0 < 0 or y0 < 0 or x1 > width or y1 > height:
            raise UsageError(
                f"like is {x0:g},{y0:g},{x1:g},{y1:g}; the picture has {width} x {height} pixels"
            )
    task, points = query.task, _POINTS.match(query.text.lower())
    if task == "auto" and not query.options and points:
        task = "question" if points["counts"] else "tag"
    return replace(query, task=task, like=like)


class MarkedStrategy:
    """Strategy of queries that only ask for what looks like the marked boxes."""

    name = "marked"
    writes_programs = True
    # the examples say what to look for: no word of the query needs to be known
    searches_texts = True

    @staticmethod
    def answers(query: Query) -> bool:
        """Return True if the query has marked boxes and asks for nothing else."""
        points = _POINTS.match(query.text.lower()) if query.like else None
        if points is None or query.task not in _VALUES:
            return False
        return query.task != "question" or bool(points["counts"])

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """Run the program."""
        program = _PROGRAM.format(_VALUES[context.query.task])
        yield from run_program(components, context, Generation(program), accept_misfit=True)
