"""A stored run with what a person said of it, as a case for reflectors.

Source: CLOVA (Gao et al. 2024), sec. 3.3: human feedback is the desired answer or a comment.
Differs: where the comment states the answer, it becomes a label, so that a reflector without a
language model can go by it, too (:mod:`viper.tuning.comments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from viper.schema import Trace
from viper.tools.media import Media
from viper.tuning.case import Case
from viper.tuning.comments import Families, read_comment


class Remark(Protocol):
    """What somebody said of an answer; see :class:`viper.evaluate.feedback.Feedback`.

    Attributes:
        answer: what would have been right, as metrics take it; None where nobody said.
        comment: in words; may be empty.
    """

    @property
    def answer(self) -> Any: ...

    @property
    def comment(self) -> str: ...


def case_of(
    trace: Trace, remarks: Sequence[Remark], media: Media, families: Families = ()
) -> Case | None:
    """The case that one person's remarks about one answer make; None where no program was written.

    The last right answer counts, whether a remark gives it or its comment states it; all comments
    are kept, in their order. ``desired`` is None where words are all there is: a reflector that
    reads them may know more, one that intervenes blames nothing then.

    Args:
        trace: of the run, its task resolved.
        remarks: the oldest first.
        media: what the run was about.
        families: of words that exclude each other, as the profile has them: what comments may
            state beside options, numbers, yes and no.

    Raises:
        UsageError: a right answer that is none of the run's task.
    """
    desired: Any = None
    for remark in remarks:
        said = remark.answer
        if said is None:
            said = read_comment(remark.comment, trace.query, trace.answer, families).desired
        desired = desired if said is None else said
    comments = dict.fromkeys(filter(None, (remark.comment.strip() for remark in remarks)))
    return Case.of(trace, media, desired, "\n".join(comments), trace.plan or "")
