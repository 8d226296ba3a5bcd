"""Trains soft prompts of one concept for a matcher, several together, and judges pictures by them.

`trained_prompts` trains by `_loss` on random views; `picture_margins` judges every picture by
prompts of the others, and `margins_of` and `matched` judge prompts.

There are three losses. Each is the logistic loss of a difference of similarities that programs
compare. (1) With the prompt, a picture of the concept is more similar to the concept than to all
known words together in the original matcher (a list of categories). (2) A picture of something else
is less similar to the concept than to the words that are true of it. (3) It is also less similar to
the concept than pictures of the concept are (the choice of a picture). The same losses are applied
to the concept together with a word: ``pink cube`` against ``cube``.

Any picture of a search may be wrong, whether it judges or is judged. So each picture is judged by
many prompts that are trained on small subsets of the other pictures. A wrong picture is in few of
these subsets.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from viper.models.vision.adapter_matcher import Places
from viper.tuning.soft_prompts.base import Using
from viper.tuning.soft_prompts.match_data import MatchData, Views, Words

if TYPE_CHECKING:
    from torch import Generator, Tensor

# Forms of the concept's name in training, mostly the bare name.
FORMS = ("{}", "{}", "{}", "{} object", "a {}", "{} thing", "a photo of a {}")

# Views per step that the original matcher encodes. They train only the text's row and are stored,
# so many cost little; five negatives to a positive, as things are rarely the concept.
POSITIVES, NEGATIVES = 8, 40

# Views per step that the image tower encodes with each prompt. They take nearly all of the time, so
# they are a small part of those above.
SEEN_POSITIVES, SEEN_NEGATIVES = 2, 4

# Weights of the losses for other pictures, the choice of a picture, and phrases, relative to that
# for the concept's pictures. Other pictures weigh most, since most things that programs ask about
# are not the concept; choices and phrases compare the same pictures once more.
NOT_IT, CHOICE, PHRASE = 1.5, 0.5, 0.3

# Number of words most similar to a picture of the concept. One of them may be true of it too.
_LIKELIEST = 4

# Most subsets of the pictures for training prompts that judge the others: all sets of four of the
# usual seven pictures; the time grows with their number.
PARTS = 35

# Least margin of a picture that is matched to the concept, in the matcher's own units. The margin
# is its similarity to the concept minus that to all known words together: slightly below 0, because
# small sets of pictures train weaker prompts. Set on the `val` data.
LEAST_MARGIN = -1.5

# Pictures with a lower margin are wrong. From this margin on, the better half of the pictures is
# trusted, because prompts of four pictures are weak for some concepts.
WRONG_MARGIN = -4.0

# Share of the pictures in a subset: four of seven, so that every picture is judged by many subsets
# that lack it.
_SHARE = 4 / 7


@dataclass(frozen=True)
class Schedule:
    """Steps and rates of training; ``tower_rate`` 0 does not train the image tower's rows."""

    steps: int
    rate: float
    tower_rate: float
    seed: int


def texts_of(backend: Any, concept: str, words: Words) -> tuple[Tensor, Tensor]:
    """Return the embedded names of a concept by the original matcher.

    They are float32 ``[F, D]`` alone (:data:`FORMS`) and ``[O, D]`` with each known word.
    """
    import torch

    forms = [form.format(concept) for form in FORMS]
    forms += [f"{concept} {word}" for word in words.texts]
    rows = torch.from_numpy(backend.encode_texts(forms)).to(words.embedded.device)
    return rows[: len(FORMS)], rows[len(FORMS) :]


def trained_prompts(
    using: Using, places: Places, data: MatchData, schedule: Schedule, on_step: Callable[[], None]
) -> Tensor:
    """Train K prompts ``[K, N, W]`` by Adam. The rate falls to zero over the second half.

    All prompts start with the same vectors and see the same negatives, so that they can be mixed.
    The weights of the matcher do not change.
    """
    import torch

    generator = torch.Generator().manual_seed(schedule.seed)
    device = data.words.embedded.device
    with using() as backend:
        texts = texts_of(backend, data.concept, data.words)
    # an untrained prompt: small random tokens, or zeros for added rows
    first = 0.02 * torch.randn(places.shape, generator=generator)
    first[-1] = 0
    first = first * places.used() if places.tokens else torch.zeros(places.shape)
    used, first, count = places.used().to(device), first.to(device), len(data.shares)
    tower = first[:-1].repeat(count, 1, 1).requires_grad_(schedule.tower_rate > 0)
    text = first[-1:].repeat(count, 1, 1).requires_grad_()
    groups: list[dict[str, Any]] = [{"params": [text], "lr": schedule.rate}]
    if schedule.tower_rate > 0:
        groups.append({"params": [tower], "lr": schedule.tower_rate})
    optimiser = torch.optim.Adam(groups)
    rates = [group["lr"] for group in groups]
    for step in range(schedule.steps):
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * min(1.0, 2 - 2 * step / schedule.steps)
        vectors = torch.cat([tower, text], dim=1) * used
        wide = _draw(data, POSITIVES, NEGATIVES, generator)
        loss = _loss(data, texts, wide, places.text_row(vectors), None, generator)
        if schedule.tower_rate > 0:
            close = _draw(data, SEEN_POSITIVES, SEEN_NEGATIVES, generator)
            with using() as backend:
                seen = _encode_views(backend, data, close, vectors)
                loss = loss + _loss(data, texts, close, places.text_row(vectors), seen, generator)
                gradients = torch.autograd.grad(loss, [text, tower])
            text.grad, tower.grad = gradients
        else:
            (text.grad,) = torch.autograd.grad(loss, [text])
        optimiser.step()
        on_step()
    return (torch.cat([tower, text], dim=1) * used).detach()


@dataclass(frozen=True, eq=False)
class _Draw:
    """Views of a step, as indices of view and picture: ``[K, B]`` positives, ``[M]`` negatives."""

    positives: tuple[Tensor, Tensor]
    negatives: tuple[Tensor, Tensor]


def _draw(data: MatchData, positives: int, negatives: int, generator: Generator) -> _Draw:
    import torch

    views, others = data.negatives.plain.shape[:2]
    pictures = torch.multinomial(data.shares, positives, True, generator=generator)
    chosen = torch.randperm(others, generator=generator)[:negatives]
    return _Draw(
        (torch.randint(0, views, pictures.shape, generator=generator), pictures),
        (torch.randint(0, views, chosen.shape, generator=generator), chosen),
    )


def _encode_views(
    backend: Any, data: MatchData, draw: _Draw, vectors: Tensor
) -> tuple[Tensor, Tensor]:
    """Return embeddings with each prompt: positives ``[K, B, D]`` and negatives ``[K, M, D]``."""
    import torch

    positives = data.positives.begun[draw.positives]  # (K, B, …)
    count, per_prompt = positives.shape[:2]
    negatives = data.negatives.begun[draw.negatives]  # (M, …)
    every = torch.cat([positives, negatives[None].expand(count, *negatives.shape)], dim=1)
    prompts = vectors.repeat_interleave(every.shape[1], dim=0)
    seen = backend.embed_from(every.flatten(0, 1), prompts).float()
    seen = seen.unflatten(0, (count, -1))
    return seen[:, :per_prompt], seen[:, per_prompt:]


def _loss(
    data: MatchData,
    texts: tuple[Tensor, Tensor],
    draw: _Draw,
    rows: Tensor,
    seen: tuple[Tensor, Tensor] | None,
    generator: Generator,
) -> Tensor:
    """Return the sum of the losses of all prompts.

    Args:
        rows: float32 ``[K, D]``, the row that each prompt adds to a text.
        seen: result of :func:`_encode_views`; None uses the original matcher's embeddings.
    """
    import torch
    from torch.nn.functional import normalize, softplus

    forms, phrases = texts
    plain = data.positives.plain[draw.positives]
    plain_others = data.negatives.plain[draw.negatives]
    positives, negatives = (plain, plain_others[None]) if seen is None else seen
    true = data.words.true[draw.negatives[1]].float()
    weight = true / true.sum(dim=1, keepdim=True)
    form = int(torch.randint(0, len(forms), (), generator=generator))
    concept = normalize(forms[form] + rows, dim=-1)[:, None]  # (K, 1, D)
    like = data.scale * (positives * concept).sum(-1)  # (K, B)
    unlike = data.scale * (negatives * concept).sum(-1)  # (K, M)
    words = data.scale * plain @ data.words.embedded.T  # (K, B, O)
    words_others = data.scale * plain_others @ data.words.embedded.T  # (M, O)
    listed = softplus(words.logsumexp(-1) - like).mean(-1)
    not_it = (softplus(unlike[..., None] - words_others) * weight).sum(-1).mean(-1)
    choice = softplus(unlike.logsumexp(-1, keepdim=True) - like).mean(-1)

    near = words.topk(min(_LIKELIEST, words.shape[-1]), dim=-1).indices
    pick = torch.randint(0, near.shape[-1], (*near.shape[:2], 1), generator=generator)
    word = near.gather(-1, pick.to(near.device))  # (K, B, 1)
    phrase = normalize(phrases[word[..., 0]] + rows[:, None], dim=-1)
    fits = data.scale * (positives * phrase).sum(-1)
    named = softplus(words.gather(-1, word)[..., 0] - fits).mean(-1)
    other = torch.multinomial(true.cpu(), 1, generator=generator)[:, 0].to(true.device)
    phrase = normalize(phrases[other][None] + rows[:, None], dim=-1)  # (K, M, D)
    misfits = data.scale * (negatives * phrase).sum(-1)
    misnamed = softplus(misfits - words_others.gather(-1, other[:, None])[:, 0]).mean(-1)
    losses: Tensor = listed + NOT_IT * not_it + CHOICE * choice + PHRASE * (named + misnamed)
    return losses.sum()


@dataclass(frozen=True, eq=False)
class Margins:
    """Margins of the positives by prompts of the other pictures.

    Attributes:
        margins: float ``[P]``, mean margin of each picture; see :data:`LEAST_MARGIN`.
    """

    margins: Tensor

    @property
    def least(self) -> float:
        """Return the least margin of a picture that is matched to the concept."""
        margins = sorted(self.margins.tolist(), reverse=True)
        return min(LEAST_MARGIN, max(WRONG_MARGIN, margins[max(1, len(margins) // 2) - 1]))

    @property
    def trusted(self) -> list[int]:
        """Return the indices of the pictures that are matched to the concept."""
        return [i for i, margin in enumerate(self.margins.tolist()) if margin >= self.least]

    @property
    def company(self) -> list[int]:
        """Return the indices of the pictures to train on: all that are not clearly wrong."""
        return [i for i, margin in enumerate(self.margins.tolist()) if margin >= WRONG_MARGIN]

    @property
    def agreement(self) -> float:
        """Return the mean margin of the better half, a measure of how well the pictures agree."""
        best = self.margins.sort(descending=True).values
        return float(best[: (len(best) + 1) // 2].mean())


def picture_margins(
    using: Using, places: Places, data: MatchData, schedule: Schedule, on_step: Callable[[], None]
) -> Margins:
    """Return the margins of every picture by prompts of subsets of the others.

    The schedule leaves the image tower fixed.
    """
    import torch
    from torch.nn.functional import normalize

    count = data.positives.plain.shape[1]
    size = min(max(1, round(_SHARE * count)), count - 1)
    rng = random.Random(schedule.seed)
    if math.comb(count, size) <= PARTS:
        parts = list(itertools.combinations(range(count), size))
        parts = rng.sample(parts, len(parts))
    else:
        parts = [tuple(rng.sample(range(count), size)) for _ in range(PARTS)]
    shares = torch.zeros(len(parts), count)
    for row, part in enumerate(parts):
        shares[row, list(part)] = 1.0
    prompts = trained_prompts(using, places, replace(data, shares=shares), schedule, on_step)
    with using() as backend:
        forms, _ = texts_of(backend, data.concept, data.words)
    targets = normalize(forms[0] + places.text_row(prompts), dim=-1)  # (K, D)
    plain = data.positives.plain  # (V, P, D)
    like = data.scale * torch.einsum("vpd,kd->kvp", plain, targets)
    margins = (like - _known(data, plain)).mean(dim=1)  # (K, P)
    held = (shares == 0).to(margins)
    return Margins((margins * held).sum(0) / held.sum(0).clamp(min=1))


def margins_of(
    using: Using, data: MatchData, pictures: Views, prompts: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the margins of pictures for the concept, and their similarities to it.

    Args:
        pictures: views of n pictures.
        prompts: ``[K, N, W]``; None uses the original matcher.

    Returns:
        Margins ``[K, n]`` and similarities ``[K, n]``; K is 1 without prompts.
    """
    import torch
    from torch.nn.functional import normalize

    with using() as backend:
        places = backend.places
        forms, _ = texts_of(backend, data.concept, data.words)
    plain = pictures.plain[0]
    seen, rows = [plain], torch.zeros_like(forms[:1])
    if prompts is not None:
        seen = []
        for prompt in prompts:
            with using() as backend, torch.no_grad():
                seen.append(backend.embed_from(pictures.begun[0], prompt).float())
        rows = places.text_row(prompts)
    targets = normalize(forms[0] + rows, dim=-1)
    like = data.scale * (torch.stack(seen) * targets[:, None]).sum(-1)
    return like - _known(data, plain), like


def matched(data: MatchData, like: Tensor, plain: Tensor, true: Tensor) -> Tensor:
    """Return bool ``[K, n]``: which pictures of other concepts are matched to the concept.

    These are more similar to the concept than to every word that is true of them.

    Args:
        like: similarities by :func:`margins_of`.
        plain: float32 ``[n, D]``, their embeddings.
        true: bool ``[n, O]``, the known words that are true of them.
    """
    words = data.scale * plain @ data.words.embedded.T
    return like > words.masked_fill(~true, float("-inf")).amax(dim=-1)


def _known(data: MatchData, plain: Tensor) -> Tensor:
    """Return the similarity of pictures ``[..., D]`` to all known words together, ``[...]``."""
    return (data.scale * plain @ data.words.embedded.T).logsumexp(dim=-1)
