"""Trains the matcher on a concept: CLOVA's SELECT and CLASSIFY.

Each picture of the concept gets a prompt. The prompt is trained on its own picture three times as
often as on each other positive, and two of the others are held out to validate it. The prompt of a
picture that the others' prompts do not match to the concept is discarded. Clearly wrong pictures
are not used for other prompts.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.4: 7 positives, pictures of related concepts
as negatives, 100 steps of Adam at 1e-2. Differs in the following. The figures are mean shares of
right answers on validation scenes for 12 reserved concepts, one at a time, with all prompts kept;
the share before training is .31.

- A text has its own row (``vision.adapter_matcher``), which carries the learning of the embedded
  matcher: .88 with this row alone.
- The rows of a ResNet learn at a third of the rate. At the full rate they gain nothing and harm
  known words.
- A prompt is also trained on the other positives: .87, against .77 with its own picture alone.
- Two other positives are held out for each prompt, not the first picture for all prompts, because
  that picture may be wrong.
- Colour channels are exchanged in training unless held-out pictures suffer. Then only half as many
  other objects are confused with a new shape or pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from viper.errors import UsageError
from viper.models.vision.prompt_pool import Evidence
from viper.models.vision.soft_prompts import SoftPrompt
from viper.tuning.soft_prompts import base, match_training
from viper.tuning.soft_prompts.match_data import EncodedData, encode_pictures
from viper.tuning.training_data import Collected, FoundPicture

if TYPE_CHECKING:
    from torch import Tensor

# The paper's (supplement, sec. 8.4).
STEPS, RATE = 100, 1e-2

# Rate of a ResNet's rows relative to the text's rate: a row changes all later stages, so it takes
# smaller steps. A Vision Transformer's tokens use the text's rate.
STAGE_RATE = 0.3

# Steps and rate of the prompts that only judge pictures. They train the text's row alone, which
# takes fewer and larger steps.
JUDGING_STEPS, JUDGING_RATE = 60, 2e-2

# Frequency of a prompt's own picture in training, relative to each other picture: prompts of one
# concept must differ, and a picture alone would not generalise.
LEAD = 3

# Pictures of the concept that validate a prompt: of 7, one would be chance and three too many to
# miss.
HELD_OUT = 2

# Largest loss of margin on held-out pictures for which colour channels are exchanged, in the units
# of ``LEAST_MARGIN``: a concept that loses more is known by its colour. Set on the `val` data.
EXCHANGE_LOSS = 1.5

# Largest increase of the share of held-out negatives that are matched to the concept: two of the
# usual 16; a single one may be chance.
MORE_TAKEN = 0.15


class MatchTuner(base.Tuner[Collected[FoundPicture]]):
    """The tuner of the matcher: one prompt for each positive."""

    role = "matcher"

    def trained(self) -> list[base.TrainedPrompt]:
        """Choose the views, train all prompts together, and validate each on its held-out pictures.

        Raises:
            UsageError: the matcher takes no soft prompts, there are no negatives, or there is only
                one positive and prompts must be validated.
        """
        import torch

        using, data, options = self.using, self.data, self.options
        count = len(data.positives)
        if not data.negatives:
            raise UsageError(
                f"no pictures of anything but {data.concept!r}; the matcher needs negatives, too"
            )
        if not count:
            raise UsageError(f"no pictures of {data.concept!r} to learn from")
        if count == 1 and options.validate:
            raise UsageError(
                f"1 picture of {data.concept!r}; at least 2 are needed, "
                "one to learn from and one to judge by"
            )
        with using() as backend:
            if not hasattr(type(backend), "encode_image_adapted"):
                raise UsageError(
                    f"{type(backend).__name__} takes no soft prompts; use backend open_clip"
                )
            places, model_id = backend.places, str(backend.model_id)
        steps, rate = options.steps or STEPS, options.rate or RATE
        tower_rate = rate * (1.0 if places.tokens else STAGE_RATE)
        schedule = match_training.Schedule(steps, rate, tower_rate, options.seed)
        on_step = base.Steps(self.on_progress, steps + 2 * (count > 1) * JUDGING_STEPS)

        encoded, verdict = self._best_views(places, on_step)
        if not options.validate:
            verdict = None
        trusted = company = list(range(count))
        if verdict is not None:
            trusted, company = verdict.trusted, verdict.company
        held = [_held_out(i, trusted) for i in range(count)]
        # the relative frequency of each picture in training each prompt
        shares = [
            [LEAD if j == i else float(j in company and j not in held[i]) for j in range(count)]
            for i in range(count)
        ]
        training = replace(encoded.data, shares=torch.tensor(shares, dtype=torch.float32))
        prompts = match_training.trained_prompts(using, places, training, schedule, on_step)

        views, names = encoded.data.positives, [each.picture_id for each in data.positives]
        before, _ = match_training.margins_of(using, encoded.data, views, None)
        after, _ = match_training.margins_of(using, encoded.data, views, prompts)
        least = match_training.LEAST_MARGIN if verdict is None else verdict.least
        more = self._more_taken(encoded, prompts)
        results = []
        for i, vectors in enumerate(prompts):
            own, others = held[i], [j for j, share in enumerate(shares[i]) if share and j != i]
            right_before, right_after = (
                float((margins[own] >= least).float().mean()) if own else None
                for margins in (before[0], after[i])
            )
            gained = float((after[i] - before[0])[own].mean()) if own else 0.0
            why = ""
            if verdict is not None:
                why = _why(i, data.concept, verdict, (right_before, right_after, gained), more[i])
            evidence = Evidence(
                model_id,
                trained_on=tuple(names[j] for j in (i, *others)),
                validated_on=tuple(names[j] for j in own),
                before=right_before,
                after=right_after,
                manner="searched",
                steps=steps,
                seed=options.seed,
            )
            feature = views.plain[0, i].cpu().numpy().copy()
            prompt = SoftPrompt(feature, vectors.float().cpu().numpy().copy())
            results.append(base.TrainedPrompt(prompt, evidence, why))
        return results

    def _best_views(
        self, places: Any, on_step: base.Steps
    ) -> tuple[EncodedData, match_training.Margins | None]:
        """Return the encoded pictures, with exchanged channels if suitable, and their margins."""
        using, data, seed = self.using, self.data, self.options.seed
        positives = [picture.pixels() for picture in data.positives]
        negatives = [picture.pixels() for picture in data.negatives]
        encode = partial(encode_pictures, using, data, positives, negatives, seed=seed)
        encoded = encode(exchanged=False)
        if len(positives) == 1:
            return encoded, None
        judging = match_training.Schedule(JUDGING_STEPS, JUDGING_RATE, 0.0, seed)
        verdict = match_training.picture_margins(using, places, encoded.data, judging, on_step)
        other = encode(exchanged=True)
        exchanged = match_training.picture_margins(using, places, other.data, judging, on_step)
        if exchanged.agreement >= verdict.agreement - EXCHANGE_LOSS:
            return other, exchanged
        return encoded, verdict

    def _more_taken(self, encoded: EncodedData, prompts: Tensor) -> list[float]:
        """Return for each prompt the increase of the share of negatives matched to the concept."""
        shares, data, held = [], encoded.data, encoded.held
        for which in (None, prompts):
            _, like = match_training.margins_of(self.using, data, held, which)
            hits = match_training.matched(data, like, held.plain[0], encoded.held_true)
            shares.append(hits.float().mean(dim=1))
        return (shares[1] - shares[0]).tolist()


def _why(
    i: int,
    concept: str,
    verdict: match_training.Margins,
    held: tuple[float | None, float | None, float],
    more: float,
) -> str:
    """Return in words why a prompt is discarded, or "" if it is kept.

    Args:
        held: shares of right held-out pictures before and after, and the mean increase of their
            margin, which breaks the frequent ties of two pictures.
        more: increase of the share of negatives matched to the concept.
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


def _held_out(i: int, trusted: Sequence[int]) -> list[int]:
    """Return the pictures that validate a prompt: the next trusted ones in rotation.

    At most half of the others are held out.
    """
    others = sorted((j for j in trusted if j != i), key=lambda j: (j < i, j))
    return others[: min(HELD_OUT, (len(others) + 1) // 2)]
