"""What a visitor of the atlas says of an answer: a form, kept as ``viper feedback`` keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request

from viper.errors import StoreError, UsageError, ViperError
from viper.evaluate.feedback import (
    LONGEST,
    RIGHT_IS,
    Feedback,
    add_feedback,
    answer_from,
    read_feedback,
)
from viper.evaluate.row import Row
from viper.web.behind_token import form_of
from viper.web.trace_page import Saying

_MOST_BYTES = 8 * 4 * LONGEST
"""Of a form: two texts, each character percent-encoded."""

_REMARKS_SHOWN = 20


@dataclass(frozen=True)
class Said:
    """A form as it was sent: the right answer, a comment in words, or both."""

    answer: str = ""
    comment: str = ""


async def read_said(request: Request) -> Said:
    """The form of a request.

    Raises:
        HTTPException: it is too long, or no form.
    """
    fields = await form_of(request, _MOST_BYTES)
    answer, comment = (fields.get(name, "").strip() for name in ("answer", "comment"))
    return Said(answer, comment.replace("\r\n", "\n"))


def keep_said(run: Path, row: Row, said: Said) -> str:
    """Keeps what was said of a row; why it was not kept, empty where it was."""
    try:
        right = answer_from(said.answer, row) if said.answer else None
        add_feedback(run, Feedback(row.sample_id, row.seed, right, said.comment))
    except (UsageError, StoreError) as error:
        return str(error)
    return ""


def saying(run: Path, row: Row, address: str, refused: tuple[Said, str] | None = None) -> Saying:
    """The form of a row's page.

    Args:
        address: that takes the form.
        refused: what was not kept, and why.
    """
    said, why = refused or (Said(), "")
    right_is = RIGHT_IS.get(row.task, "in words")
    return Saying(address, right_is, _known(run, row), why, said.answer, said.comment)


def _known(run: Path, row: Row) -> list[tuple[str, str, str]]:
    """The last remarks about a row; none where they cannot be read."""
    try:
        remarks = read_feedback(run)
    except ViperError:
        return []
    its = [one for one in remarks if (one.sample_id, one.seed) == (row.sample_id, row.seed)]
    return [(_words(one, row), one.comment, one.given) for one in its[-_REMARKS_SHOWN:]]


def _words(remark: Feedback, row: Row) -> str:
    """The right answer that a remark gives, in words; empty where it gives none."""
    answer = remark.answer
    if type(answer) is int and row.task == "choice" and 0 <= answer < len(row.options):
        return row.options[answer]
    if answer is None or isinstance(answer, str):
        return answer or ""
    return json.dumps(answer)
