"""Training soft prompts of one concept for a matcher, several at once.

Three losses, each the logistic one of a difference of similarities as programs compare them: a
picture of the concept is more like it, under the prompt, than like all known words together, as the
matcher came (a list of categories); a picture of something else is less like it than like what
is true of that picture; and less like it than pictures of the concept are (the choice of a
picture). The same with a word before and behind: ``pink cube`` against ``cube``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viper.models.vision.taught_matcher import Places, text_row
from viper.tuning.soft_prompts.base import Using
from viper.tuning.soft_prompts.match_views import Views
from viper.tuning.soft_prompts.match_words import Words

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


@dataclass(frozen=True, eq=False)
class Lesson:
    """What prompts of a concept are trained on.

    Attributes:
        shares: float ``[K, P]``: how often each of K prompts sees each of the P positives.
        scale: the matcher's factor on a cosine.
    """

    concept: str
    positives: Views
    negatives: Views
    words: Words
    shares: Tensor
    scale: float


@dataclass(frozen=True)
class Course:
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
    """What a concept is called, alone and with each known word."""
    import torch

    asked = [form.format(concept) for form in FORMS]
    asked += [f"{concept} {word}" for word in words.texts]
    rows = torch.from_numpy(backend.encode_texts(asked)).to(words.embedded.device)
    return Texts(rows[: len(FORMS)], rows[len(FORMS) :])


def first_vectors(places: Places, generator: Generator) -> Tensor:
    """A prompt before training, ``[N, W]``: small random tokens; zeros where rows are added."""
    import torch

    drawn = 0.02 * torch.randn(places.shape, generator=generator)
    drawn[-1] = 0
    return drawn * places.used() if places.tokens else torch.zeros(places.shape)


def trained_prompts(
    using: Using,
    places: Places,
    lesson: Lesson,
    course: Course,
    on_step: Callable[[], None],
) -> Tensor:
    """K prompts ``[K, N, W]`` by Adam; the rate falls to nothing over the second half.

    All begin alike and see the same other pictures, so that they can be mixed. No weight of the
    matcher changes.
    """
    import torch

    generator = torch.Generator().manual_seed(course.seed)
    device = lesson.words.embedded.device
    with using() as backend:
        texts = texts_of(backend, lesson.concept, lesson.words)
    used, first = places.used().to(device), first_vectors(places, generator).to(device)
    count = len(lesson.shares)
    tower = first[:-1].repeat(count, 1, 1).requires_grad_(course.tower_rate > 0)
    text = first[-1:].repeat(count, 1, 1).requires_grad_()
    groups: list[dict[str, Any]] = [{"params": [text], "lr": course.rate}]
    if course.tower_rate > 0:
        groups.append({"params": [tower], "lr": course.tower_rate})
    optimiser = torch.optim.Adam(groups)
    rates = [group["lr"] for group in groups]
    for step in range(course.steps):
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * min(1.0, 2 - 2 * step / course.steps)
        vectors = torch.cat([tower, text], dim=1) * used
        wide = _draw(lesson, POSITIVES, NEGATIVES, generator)
        loss = _loss(lesson, texts, wide, text_row(places, vectors), None, generator)
        if course.tower_rate > 0:
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
    found: Tensor = (torch.cat([tower, text], dim=1) * used).detach()
    return found


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
    """Embeddings under each prompt: ``[K, B, D]`` of positives, ``[K, M, D]`` of negatives."""
    import torch

    mine = lesson.positives.begun[draw.positives]  # (K, B, …)
    count, each = mine.shape[:2]
    others = lesson.negatives.begun[draw.negatives]  # (M, …)
    every = torch.cat([mine, others[None].expand(count, *others.shape)], dim=1)
    prompts = vectors.repeat_interleave(every.shape[1], dim=0)
    seen = backend.embedded(every.flatten(0, 1), prompts).float()
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
    """The sum over the prompts of what they still get wrong.

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
