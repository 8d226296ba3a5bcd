"""Training soft prompts of one concept for a matcher, several at once, and judging by them.

Three losses, each the logistic one of a difference of similarities as programs compare them: a
picture of the concept is more like it, under the prompt, than like all known words together, as the
matcher came (a list of categories); a picture of something else is less like it than like what
is true of that picture; and less like it than pictures of the concept are (the choice of a
picture). The same with a word before and behind: ``pink cube`` against ``cube``.

Pictures that a search found may be wrong, those that judge as well as those that are judged: a
picture is asked of many prompts of small parts of the others, and one wrong picture is in few.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from viper.models.vision.adapter_matcher import Places, text_row
from viper.tuning.soft_prompts.base import Using
from viper.tuning.soft_prompts.match_lesson import Lesson, Views, Words

if TYPE_CHECKING:
    from torch import Generator, Tensor

FORMS = ("{}", "{}", "{}", "{} object", "a {}", "{} thing", "a photo of a {}")
"""How the concept is put while it is learned; mostly bare."""

POSITIVES, NEGATIVES = 8, 40
"""Views of a step that are compared by the matcher as it came, and the text's row alone moves."""

SEEN_POSITIVES, SEEN_NEGATIVES = 2, 4
"""Views of a step that each prompt's own image tower sees."""

NOT_IT, CHOICE, PHRASE = 1.5, 0.5, 0.3
"""Weights of the losses of other pictures, of the choice of a picture, and of phrases; the first,
of the concept's pictures, has 1."""

_LIKELIEST = 4
"""Words most like a picture of the concept: one of them may be true of it, too."""

PARTS = 35
"""Parts of the pictures, at most, that prompts are trained on to judge the others: all fours of
seven."""

LEAST_MARGIN = -1.5
"""A picture is taken for the concept if its similarity to it is at most so little below that of
all known words together, in the matcher's own units."""

WRONG_MARGIN = -4.0
"""What lies below is wrong. Half of the pictures, those that are taken for the concept most, are
trusted from here on, since of some concepts four pictures tell little."""

_SHARE = 4 / 7


@dataclass(frozen=True)
class Schedule:
    """How long and how fast; ``tower_rate`` 0 leaves the image tower's rows as they begin."""

    steps: int
    rate: float
    tower_rate: float
    seed: int


@dataclass(frozen=True, eq=False)
class Texts:
    """The concept as text, embedded by the matcher as it came.

    Attributes:
        forms: float32 ``[F, D]``, see :data:`FORMS`.
        phrases: float32 ``[O, D]``: the concept and each known word.
    """

    forms: Tensor
    phrases: Tensor


def texts_of(backend: Any, concept: str, words: Words) -> Texts:
    """Return the embedded names of a concept, alone and with each known word."""
    import torch

    forms = [form.format(concept) for form in FORMS]
    forms += [f"{concept} {word}" for word in words.texts]
    rows = torch.from_numpy(backend.encode_texts(forms)).to(words.embedded.device)
    return Texts(rows[: len(FORMS)], rows[len(FORMS) :])


def first_vectors(places: Places, generator: Generator) -> Tensor:
    """Return a prompt before training, ``[N, W]``: small random tokens, or zeros where rows are
    added."""
    import torch

    drawn = 0.02 * torch.randn(places.shape, generator=generator)
    drawn[-1] = 0
    return drawn * places.used() if places.tokens else torch.zeros(places.shape)


def trained_prompts(
    using: Using, places: Places, lesson: Lesson, schedule: Schedule, on_step: Callable[[], None]
) -> Tensor:
    """Train K prompts ``[K, N, W]`` by Adam. The rate falls to zero over the second half.

    All begin alike and see the same other pictures, so that they can be mixed. No weight of the
    matcher changes.
    """
    import torch

    generator = torch.Generator().manual_seed(schedule.seed)
    device = lesson.words.embedded.device
    with using() as backend:
        texts = texts_of(backend, lesson.concept, lesson.words)
    used, first = places.used().to(device), first_vectors(places, generator).to(device)
    count = len(lesson.shares)
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
        wide = _draw(lesson, POSITIVES, NEGATIVES, generator)
        loss = _loss(lesson, texts, wide, text_row(places, vectors), None, generator)
        if schedule.tower_rate > 0:
            close = _draw(lesson, SEEN_POSITIVES, SEEN_NEGATIVES, generator)
            with using() as backend:
                seen = _seen(backend, lesson, close, vectors)
                loss = loss + _loss(
                    lesson, texts, close, text_row(places, vectors), seen, generator
                )
                gradients = torch.autograd.grad(loss, [text, tower])
            text.grad, tower.grad = gradients
        else:
            (text.grad,) = torch.autograd.grad(loss, [text])
        optimiser.step()
        on_step()
    prompts: Tensor = (torch.cat([tower, text], dim=1) * used).detach()
    return prompts


@dataclass(frozen=True, eq=False)
class _Draw:
    """Views of a step by number of view and picture: ``[K, B]`` positives, ``[M]`` negatives."""

    positives: tuple[Tensor, Tensor]
    negatives: tuple[Tensor, Tensor]


def _draw(lesson: Lesson, positives: int, negatives: int, generator: Generator) -> _Draw:
    import torch

    views, others = lesson.negatives.plain.shape[:2]
    pictures = torch.multinomial(lesson.shares, positives, True, generator=generator)
    chosen = torch.randperm(others, generator=generator)[:negatives]
    return _Draw(
        (torch.randint(0, views, pictures.shape, generator=generator), pictures),
        (torch.randint(0, views, chosen.shape, generator=generator), chosen),
    )


def _seen(backend: Any, lesson: Lesson, draw: _Draw, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return embeddings under each prompt: ``[K, B, D]`` of positives, ``[K, M, D]`` of
    negatives."""
    import torch

    mine = lesson.positives.begun[draw.positives]  # (K, B, …)
    count, each = mine.shape[:2]
    others = lesson.negatives.begun[draw.negatives]  # (M, …)
    every = torch.cat([mine, others[None].expand(count, *others.shape)], dim=1)
    prompts = vectors.repeat_interleave(every.shape[1], dim=0)
    seen = backend.embed_from(every.flatten(0, 1), prompts).float()
    seen = seen.unflatten(0, (count, -1))
    return seen[:, :each], seen[:, each:]


def _loss(
    lesson: Lesson,
    texts: Texts,
    draw: _Draw,
    rows: Tensor,
    seen: tuple[Tensor, Tensor] | None,
    generator: Generator,
) -> Tensor:
    """Return the sum of the losses of all prompts.

    Args:
        rows: float32 ``[K, D]``, what each prompt adds to a text.
        seen: of :func:`_seen`; None: as the matcher sees them as it came.
    """
    import torch
    from torch.nn.functional import normalize, softplus

    mine, others = lesson.positives.plain[draw.positives], lesson.negatives.plain[draw.negatives]
    taught_mine, taught_others = (mine, others[None]) if seen is None else seen
    true = lesson.words.true[draw.negatives[1]].float()
    weight = true / true.sum(dim=1, keepdim=True)
    form = int(torch.randint(0, len(texts.forms), (), generator=generator))
    concept = normalize(texts.forms[form] + rows, dim=-1)[:, None]  # (K, 1, D)
    like = lesson.scale * (taught_mine * concept).sum(-1)  # (K, B)
    unlike = lesson.scale * (taught_others * concept).sum(-1)  # (K, M)
    words_mine = lesson.scale * mine @ lesson.words.embedded.T  # (K, B, O)
    words_others = lesson.scale * others @ lesson.words.embedded.T  # (M, O)
    listed = softplus(words_mine.logsumexp(-1) - like).mean(-1)
    not_it = (softplus(unlike[..., None] - words_others) * weight).sum(-1).mean(-1)
    choice = softplus(unlike.logsumexp(-1, keepdim=True) - like).mean(-1)

    near = words_mine.topk(min(_LIKELIEST, words_mine.shape[-1]), dim=-1).indices
    pick = torch.randint(0, near.shape[-1], (*near.shape[:2], 1), generator=generator)
    word = near.gather(-1, pick.to(near.device))  # (K, B, 1)
    phrase = normalize(texts.phrases[word[..., 0]] + rows[:, None], dim=-1)
    fits = lesson.scale * (taught_mine * phrase).sum(-1)
    named = softplus(words_mine.gather(-1, word)[..., 0] - fits).mean(-1)
    other = torch.multinomial(true.cpu(), 1, generator=generator)[:, 0].to(true.device)
    phrase = normalize(texts.phrases[other][None] + rows[:, None], dim=-1)  # (K, M, D)
    misfits = lesson.scale * (taught_others * phrase).sum(-1)
    misnamed = softplus(misfits - words_others.gather(-1, other[:, None])[:, 0]).mean(-1)
    each: Tensor = listed + NOT_IT * not_it + CHOICE * choice + PHRASE * (named + misnamed)
    return each.sum()


@dataclass(frozen=True, eq=False)
class Margins:
    """What the other pictures say of each.

    Attributes:
        margins: float ``[P]``, by how much each is taken for the concept, in the mean.
    """

    margins: Tensor

    @property
    def least(self) -> float:
        """Return the least margin of a picture that is taken for the concept."""
        margins = sorted(self.margins.tolist(), reverse=True)
        return min(LEAST_MARGIN, max(WRONG_MARGIN, margins[max(1, len(margins) // 2) - 1]))

    @property
    def trusted(self) -> list[int]:
        """Return the pictures that are taken for the concept."""
        return [i for i, margin in enumerate(self.margins.tolist()) if margin >= self.least]

    @property
    def company(self) -> list[int]:
        """Return the pictures that may be trained on together: all that are not clearly wrong."""
        return [i for i, margin in enumerate(self.margins.tolist()) if margin >= WRONG_MARGIN]

    @property
    def agreement(self) -> float:
        """Return the mean margin of the better half, a measure of how well the pictures agree."""
        best = self.margins.sort(descending=True).values
        return float(best[: (len(best) + 1) // 2].mean())


def picture_margins(
    using: Using, places: Places, lesson: Lesson, schedule: Schedule, on_step: Callable[[], None]
) -> Margins:
    """Return the margins of every picture by prompts of parts of the others. The image tower stays
    fixed."""
    import torch
    from torch.nn.functional import normalize

    count = lesson.positives.plain.shape[1]
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
    prompts = trained_prompts(
        using, places, replace(lesson, shares=shares), replace(schedule, tower_rate=0.0), on_step
    )
    with using() as backend:
        concept = texts_of(backend, lesson.concept, lesson.words).forms[0]
    targets = normalize(concept + text_row(places, prompts), dim=-1)  # (K, D)
    plain = lesson.positives.plain  # (V, P, D)
    like = lesson.scale * torch.einsum("vpd,kd->kvp", plain, targets)
    margins = (like - _known(lesson, plain)).mean(dim=1)  # (K, P)
    held = (shares == 0).to(margins)
    return Margins((margins * held).sum(0) / held.sum(0).clamp(min=1))


def margins_of(
    using: Using, lesson: Lesson, pictures: Views, prompts: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the margins of pictures for the concept, and their similarities to it.

    Args:
        pictures: n of them.
        prompts: ``[K, N, W]``; None: the matcher as it came.

    Returns:
        Two of ``[K, n]``; K is 1 without prompts.
    """
    import torch
    from torch.nn.functional import normalize

    with using() as backend:
        places = backend.places
        concept = texts_of(backend, lesson.concept, lesson.words).forms[0]
    plain = pictures.plain[0]
    seen, rows = [plain], torch.zeros_like(concept)[None]
    if prompts is not None:
        seen = []
        for prompt in prompts:
            with using() as backend, torch.no_grad():
                seen.append(backend.embed_from(pictures.begun[0], prompt).float())
        rows = text_row(places, prompts)
    targets = normalize(concept + rows, dim=-1)
    like = lesson.scale * (torch.stack(seen) * targets[:, None]).sum(-1)
    return like - _known(lesson, plain), like


def taken(lesson: Lesson, like: Tensor, plain: Tensor, true: Tensor) -> Tensor:
    """Return bool ``[K, n]``: which other pictures would be matched to the concept.

    Those that are more like it than like any word that is true of them.

    Args:
        like: of :func:`margins_of`.
        plain: float32 ``[n, D]``, their embeddings.
        true: bool ``[n, O]``, the known words that are true of them.
    """
    words = lesson.scale * plain @ lesson.words.embedded.T
    return like > words.masked_fill(~true, float("-inf")).amax(dim=-1)


def _known(lesson: Lesson, plain: Tensor) -> Tensor:
    """Return the likeness of pictures to all known words together, ``[...]`` of ``[..., D]``."""
    likeness: Tensor = (lesson.scale * plain @ lesson.words.embedded.T).logsumexp(dim=-1)
    return likeness
