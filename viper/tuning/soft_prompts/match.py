"""Teaches the matcher a concept: SELECT and CLASSIFY.

Each picture of the concept gets a prompt, which it leads: it is seen three times as often as each
of the others that keep it company, and two of these are held out to judge it. A picture that
prompts of the others do not take for the concept has none that is kept; one that is clearly wrong
keeps none company.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.4: 7 positives, pictures of related concepts
as negatives, 100 steps of Adam at 1e-2. Differs, as measured on the reserved concepts (12 of
them, one at a time, validation scenes, mean share of right answers with all prompts kept; .31
before):

- a text has a row of its own (``vision.adapter_matcher``), which carries the learning of the
  embedded matcher: .88 with it alone;
- a ResNet's rows learn at a third of the rate: at the full one they gain nothing, cost old words;
- the other positives keep a prompt company: .77 where each was trained on its picture alone, .87;
- held out are two others of the concept for each prompt, not the first picture for all, since that
  may itself be wrong;
- colour channels are exchanged in training where the held-out pictures do not suffer by it: half as
  many old objects are then taken for a new shape or pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from viper.errors import UsageError
from viper.models.vision.soft_prompts import SoftPrompt
from viper.tuning.soft_prompts.base import (
    USUAL,
    Progress,
    Steps,
    TrainedPrompt,
    TunerOptions,
    Using,
)
from viper.tuning.soft_prompts.match_lesson import Looked, Pictures, looked_at
from viper.tuning.soft_prompts.match_training import (
    LEAST_MARGIN,
    Margins,
    Schedule,
    margins_of,
    picture_margins,
    taken,
    trained_prompts,
)
from viper.tuning.stored_prompts import Evidence
from viper.tuning.training_data import Collected, FoundPicture

if TYPE_CHECKING:
    from torch import Tensor

STEPS, RATE = 100, 1e-2

STAGE_RATE = 0.3
"""Rate of a ResNet's rows as a share of the text's; a Vision Transformer's tokens have the same."""

JUDGING_STEPS, JUDGING_RATE = 60, 2e-2
"""Of the prompts that only judge pictures."""

LEAD = 3
"""How many times as often as each other picture a prompt sees the one that it is of."""

HELD_OUT = 2
"""Pictures of the concept that a prompt is judged by."""

EXCHANGE_LOSS = 1.5
"""Channels are exchanged if held-out pictures are then taken for the concept by no less than so
much less, in the units of ``LEAST_MARGIN``."""

MORE_TAKEN = 0.15
"""Share of held-out negatives that a prompt may take for the concept beyond what was taken."""


class MatchTuner:
    """Teaches the matcher; see :class:`~viper.tuning.soft_prompts.base.Tuner`."""

    tool = "match"
    role = "matcher"

    def learn(
        self,
        using: Using,
        lesson: Collected[FoundPicture],
        options: TunerOptions = USUAL,
        on_progress: Progress | None = None,
    ) -> list[TrainedPrompt]:
        """Train one prompt for each positive and return all, discarded ones included.

        Raises:
            UsageError: a matcher that takes no soft prompts, no negatives, or a single positive
                when prompts must be validated.
            MediaError: a picture that cannot be read.
            CancelledError: raised by ``on_progress``.
        """
        count = len(lesson.positives)
        _check(lesson, options)
        with using() as backend:
            if not hasattr(type(backend), "encode_image_adapted"):
                raise UsageError(
                    f"{type(backend).__name__} takes no soft prompts; use backend open_clip"
                )
            places, model_id = backend.places, str(backend.model_id)
        steps, rate = options.steps or STEPS, options.rate or RATE
        tower_rate = rate * (1.0 if places.tokens else STAGE_RATE)
        schedule = Schedule(steps, rate, tower_rate, options.seed)
        judging = Schedule(JUDGING_STEPS, JUDGING_RATE, 0.0, options.seed)
        rounds = 2 * (count > 1)
        on_step = Steps(on_progress, steps + rounds * JUDGING_STEPS)

        looked, verdict = _views_that_suit(using, places, lesson, judging, on_step)
        trusted = company = list(range(count))
        if options.validate and verdict is not None:
            trusted, company = verdict.trusted, verdict.company
        held = [_held_out(i, trusted) for i in range(count)]
        shares = _shares(held, company)
        prompts = trained_prompts(
            using, places, replace(looked.lesson, shares=shares), schedule, on_step
        )
        evidence = Evidence(model_id, manner="searched", steps=steps, seed=options.seed)
        judge = _Judge(using, looked, lesson, shares, held, evidence)
        return judge.judged(prompts, verdict if options.validate else None)


@dataclass(frozen=True, eq=False)
class _Judge:
    """Judges the prompts of a lesson, each by what it was not trained on."""

    using: Using
    looked: Looked
    lesson: Collected[FoundPicture]
    shares: Tensor
    held: Sequence[Sequence[int]]
    evidence: Evidence

    def judged(self, prompts: Tensor, verdict: Margins | None) -> list[TrainedPrompt]:
        """Return every prompt with its evidence. Without margins none is discarded."""
        lesson = self.looked.lesson
        before, _ = margins_of(self.using, lesson, lesson.positives, None)
        after, _ = margins_of(self.using, lesson, lesson.positives, prompts)
        least = LEAST_MARGIN if verdict is None else verdict.least
        hit_before, hit_after = before[0] >= least, after >= least
        more = self._more_taken(prompts)
        results = []
        for i, prompt in enumerate(prompts):
            own = list(self.held[i])
            shares = [
                float(hits[own].float().mean()) if own else None
                for hits in (hit_before, hit_after[i])
            ]
            gained = float((after[i] - before[0])[own].mean()) if own else 0.0
            why = ""
            if verdict is not None:
                why = _why(i, self.lesson.concept, verdict, (shares[0], shares[1], gained), more[i])
            results.append(TrainedPrompt(self._prompt(i, prompt), self._evidence(i, shares), why))
        return results

    def _more_taken(self, prompts: Tensor) -> list[float]:
        """Return by how much each prompt raises the share of other pictures matched to the
        concept."""
        looked, shares = self.looked, []
        for which in (None, prompts):
            _, like = margins_of(self.using, looked.lesson, looked.held, which)
            hits = taken(looked.lesson, like, looked.held.plain[0], looked.held_true)
            shares.append(hits.float().mean(dim=1))
        more: list[float] = (shares[1] - shares[0]).tolist()
        return more

    def _prompt(self, i: int, vectors: Tensor) -> SoftPrompt:
        feature = self.looked.lesson.positives.plain[0, i]
        return SoftPrompt(feature.cpu().numpy().copy(), vectors.float().cpu().numpy().copy())

    def _evidence(self, i: int, shares: Sequence[float | None]) -> Evidence:
        names = [picture.picture_id for picture in self.lesson.positives]
        company = [j for j in self.shares[i].nonzero()[:, 0].tolist() if j != i]
        return replace(
            self.evidence,
            trained_on=tuple(names[j] for j in (i, *company)),
            validated_on=tuple(names[j] for j in self.held[i]),
            before=shares[0],
            after=shares[1],
        )


def _why(
    i: int,
    concept: str,
    verdict: Margins,
    held: tuple[float | None, float | None, float],
    more: float,
) -> str:
    """Return in words why a prompt is discarded, or "" if it is not.

    Args:
        held: shares of the held-out pictures that are right before and after, and by how much more
            they are taken for the concept in the mean: two pictures alone often tie.
    """
    before, after, gained = held
    if i not in verdict.trusted:
        return (
            f"prompts of the other pictures do not take its picture for {concept!r} "
            f"(margin {float(verdict.margins[i]):.1f})"
        )
    if before is None or after is None:
        return "there is no other trusted picture to judge it by"
    if after < before or after < 1 and gained <= 0:
        return f"{after:.2f} of the held-out pictures right with it, {before:.2f} without"
    if more > MORE_TAKEN:
        return (
            f"it takes {more:.2f} more of the held-out pictures of other concepts for {concept!r}"
        )
    return ""


def _views_that_suit(
    using: Using,
    places: Any,
    lesson: Collected[FoundPicture],
    judging: Schedule,
    on_step: Callable[[], None],
) -> tuple[Looked, Margins | None]:
    """Return the pictures, with colour channels exchanged if that helps, and their margins."""
    pictures = Pictures.of(lesson)
    looked = looked_at(using, pictures, False, judging.seed)
    if len(lesson.positives) == 1:
        return looked, None
    verdict = picture_margins(using, places, looked.lesson, judging, on_step)
    other = looked_at(using, pictures, True, judging.seed)
    exchanged = picture_margins(using, places, other.lesson, judging, on_step)
    if exchanged.agreement >= verdict.agreement - EXCHANGE_LOSS:
        return other, exchanged
    return looked, verdict


def _held_out(i: int, trusted: Sequence[int]) -> list[int]:
    """Return the pictures that judge a prompt: the next trusted ones in turn.

    At least as many are left to train on.
    """
    others = sorted((j for j in trusted if j != i), key=lambda j: (j < i, j))
    return others[: min(HELD_OUT, (len(others) + 1) // 2)]


def _shares(held: Sequence[Sequence[int]], company: Sequence[int]) -> Tensor:
    """Return float ``[P, P]``: how often each prompt is trained on each picture."""
    import torch

    count = len(held)
    rows = [
        [LEAD if j == i else float(j in company and j not in held[i]) for j in range(count)]
        for i in range(count)
    ]
    return torch.tensor(rows, dtype=torch.float32)


def _check(lesson: Collected[FoundPicture], options: TunerOptions) -> None:
    count = len(lesson.positives)
    if not lesson.negatives:
        raise UsageError(
            f"no pictures of anything but {lesson.concept!r}; the matcher needs negatives, too"
        )
    if not count:
        raise UsageError(f"no pictures of {lesson.concept!r} to learn from")
    if count == 1 and options.validate:
        raise UsageError(
            f"1 picture of {lesson.concept!r}; at least 2 are needed, "
            "one to learn from and one to judge by"
        )
