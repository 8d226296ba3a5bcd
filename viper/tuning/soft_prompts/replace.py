"""Trains the inpainter on a word by textual inversion.

`ReplaceTuner.trained` begins with the word that restores the pictures best (`_start`), trains the
vector (`_train`) and compares it with the words on held-out pictures (`_validate`).

One vector replaces the concept's name in the text encoder. It is trained by the diffusion loss on
pictures that a search found for the concept. It is kept if held-out pictures are restored better
with it than with the original word and than with any related word.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.5; Gal et al. 2023, An Image is Worth One Word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from viper.errors import UsageError
from viper.models.vision.inpainter_diffusers import resize_square
from viper.models.vision.prompt_pool import Evidence, concept_key
from viper.models.vision.roles import Pixels
from viper.models.vision.soft_prompts import SoftPrompt
from viper.tuning.soft_prompts.base import TrainedPrompt, Tuner
from viper.tuning.training_data import Collected, FoundPicture

if TYPE_CHECKING:
    from torch import Tensor

    from viper.models.vision.adapter_inpainter import InpainterTraining, Masked

# Steps and learning rate of Adam. The rate is the paper's, which names no number of steps. After
# these steps a rate of 3e-2 restores held-out pictures no better (mean error of three concepts of
# the embedded world: .463, .464 with 5e-3).
STEPS, RATE = 150, 5e-3

# Squares per step: each of the usual 5 training pictures (7 collected, 2 held out) two or three
# times.
BATCH = 14

# Least number of pictures: one to learn from, one held out.
LEAST_PICTURES = 2

# Most held-out pictures: two of seven, because the error of a single one says little. One if there
# are few pictures, because most must stay to learn from. The paper holds one out for SELECT and
# names no number for REPLACE.
HELD_OUT = 2

# Descriptions of a picture. They cover nouns and adjectives, since the word's class is unknown.
FRAMES = ("{}", "a {}", "the {}", "a {} thing", "a {} object")

# Random draws to choose the first vector, draws to validate the last, squares per picture. The
# diffusion loss depends more on noise and time than on the word, so it is averaged over many.
TRIED, JUDGED, REPEATED = 2, 8, 4

# Range of the mask's width and height as shares of the picture's.
#
# A searched picture has no outline; its object is usually in the middle with some context. In use,
# the mask takes two thirds of the square that the model sees.
SHARES = (0.5, 0.8)


class ReplaceTuner(Tuner[Collected[FoundPicture]]):
    """The tuner of Stable Diffusion inpainting models: one prompt for all pictures."""

    role = "inpainter"

    def trained(self) -> list[TrainedPrompt]:
        """Train one prompt on all pictures but those held out."""
        data, options, names = self.data, self.options, [p.picture_id for p in self.data.positives]
        if len(names) < LEAST_PICTURES:
            raise UsageError(
                f"{len(names)} picture of {data.concept!r}; the inpainter learns from "
                f"{LEAST_PICTURES} or more: one is held out"
            )
        self._steps = options.steps or STEPS
        self._concept = concept_key("replace", data.concept)
        # the single words of the negatives' search texts, without the concept's own
        words = [word for picture in data.negatives for word in picture.text.casefold().split()]
        own = self._concept.split()
        self._related = list(dict.fromkeys(word for word in words if word not in own))
        with self.using() as backend:
            side, model_id = _interface_of(backend).side, backend.model_id
        self._gallery = gallery_of(data.positives, side)
        count = min(HELD_OUT, max(1, len(names) // 3))
        self._held, training = range(count), range(count, len(names))
        vector = self._train(training, self._start(training))
        before, after, why = self._validate(vector)
        evidence = Evidence(
            model_id=model_id,
            trained_on=tuple(names[count:]),
            validated_on=tuple(names[:count]),
            before=before,
            after=after,
            manner="searched",
            steps=self._steps,
            seed=options.seed,
        )
        vectors = vector[None].numpy().astype(np.float32)
        # Constant feature: the object to paint does not exist yet, so inputs cannot be compared.
        prompt = SoftPrompt(np.ones(1, np.float32), vectors)
        return [TrainedPrompt(prompt, evidence, why if options.validate else "")]

    def _train(self, training: Sequence[int], start: Tensor) -> Tensor:
        """Train the vector [W] and return its mean over the last half of the steps."""
        import torch

        vector = start.clone().requires_grad_()
        mean, counted = torch.zeros_like(start), 0
        optimizer = torch.optim.Adam([vector], lr=self.options.rate or RATE)
        for step in range(self._steps):
            rng = np.random.default_rng((self.options.seed, 1, step))
            order = [training[i] for i in rng.permutation(len(training))]
            which = [order[i % len(order)] for i in range(BATCH)]
            frames = [FRAMES[i] for i in rng.integers(len(FRAMES), size=BATCH)]
            prompts = [frame.format(self._concept) for frame in frames]
            with self.using() as backend:
                interface = _interface_of(backend)
                batch = examples(interface, self._gallery, which, (self.options.seed, 2, step))
                self._errors(interface, batch, prompts, vector).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if 2 * step >= self._steps - 1:
                mean, counted = mean + vector.detach(), counted + 1
            if self.on_progress is not None:
                self.on_progress(step + 1, self._steps)
        return mean / counted

    def _start(self, training: Sequence[int]) -> Tensor:
        """Return the word that restores the pictures best with the untrained model."""
        import torch

        words = [self._concept, *self._related]
        with torch.no_grad():
            errors = self._compare(training, [(word, None) for word in words], TRIED, 3)
        best = words[int(errors.mean(axis=0).argmin())]
        with self.using() as backend:
            return _interface_of(backend).word_vector(best)

    def _validate(self, vector: Tensor) -> tuple[float, float, str]:
        """Return the shares of held-out pictures that the concept restores best, and a reason.

        The shares are those with the original word and with the vector. The reason says why the
        vector is discarded; "" keeps it. Of all words, the best one restores a picture with the
        least error.
        """
        kinds = [(self._concept, vector), (self._concept, None)]
        kinds += [(word, None) for word in self._related]
        errors = self._compare(self._held, kinds, JUDGED, 4)
        adapted, plain, others = errors[:, 0], errors[:, 1], errors[:, 2:]
        bar = others.min(axis=1, initial=np.inf)
        before, after = float((plain < bar).mean()), float((adapted < bar).mean())
        why = ""
        if adapted.mean() >= plain.mean():
            why = (
                f"held-out pictures are not restored better with it: error {adapted.mean():.4f}, "
                f"{plain.mean():.4f} without"
            )
        elif len(self._related) and adapted.mean() >= others.mean(axis=0).min():
            word = self._related[int(others.mean(axis=0).argmin())]
            why = (
                f"{word!r} explains held-out pictures as well: error "
                f"{others.mean(axis=0).min():.4f}, {adapted.mean():.4f} with it"
            )
        return before, after, why

    def _compare(
        self,
        which: Sequence[int],
        kinds: Sequence[tuple[str, Tensor | None]],
        count: int,
        salt: int,
    ) -> Any:
        """Return float [P, K]: the mean error of each picture with each word, on equal examples."""
        import torch

        total = np.zeros((len(which), len(kinds)))
        for turn in range(count):
            with self.using() as backend, torch.no_grad():
                interface = _interface_of(backend)
                seed, repeated = (self.options.seed, salt, turn), list(which) * REPEATED
                batch = examples(interface, self._gallery, repeated, seed)
                for kind, (word, vector) in enumerate(kinds):
                    prompts = [f"the {word}"] * len(repeated)
                    error = self._errors(interface, batch, prompts, vector)
                    total[:, kind] += error.reshape(REPEATED, -1).mean(dim=0).cpu().numpy()
        return total / count

    def _errors(
        self, interface: Any, batch: Examples, prompts: Sequence[str], vector: Tensor | None
    ) -> Tensor:
        vectors = {} if vector is None else {self._concept: vector[None]}
        return interface.errors(batch.masked, batch.times, batch.noise, prompts, vectors)


def _interface_of(backend: Any) -> Any:
    """Return the backend's training interface.

    Raises:
        UsageError: the backend takes no soft prompts.
    """
    make = getattr(backend, "lessons", None)
    if make is None:
        raise UsageError(
            f"an inpainter {type(backend).__name__} takes no soft prompts; expected one of "
            "the backend diffusers"
        )
    return make()


def gallery_of(pictures: Sequence[FoundPicture], side: int) -> Tensor:
    """Return the middle square of each picture at the model's resolution.

    They are float [P, 3, S, S] in [-1, 1].

    Raises:
        MediaError: a picture cannot be read.
    """
    import torch

    squares = np.stack([resize_square(middle(picture.pixels()), side) for picture in pictures])
    return torch.from_numpy(squares).permute(0, 3, 1, 2).float() / 127.5 - 1


def middle(pixels: Pixels) -> Pixels:
    """Return the largest square around the middle, uint8 [S, S, 3]."""
    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return np.ascontiguousarray(pixels[top : top + side, left : left + side])


@dataclass(frozen=True, eq=False)
class Examples:
    """Pictures to restore. All prompts are compared on the same examples.

    Attributes:
        masked: the visible part of each picture.
        times: int64 [B], diffusion times, which determine the amount of noise.
        noise: float [B, C, s, s].
    """

    masked: Masked
    times: Tensor
    noise: Tensor


def examples(
    interface: InpainterTraining, gallery: Tensor, which: Sequence[int], seed: tuple[int, ...]
) -> Examples:
    """Return one example per picture index, mirrored half the time, with evenly spread times."""
    import torch

    rng = np.random.default_rng(seed)
    side, count = gallery.shape[-1], len(which)
    squares = gallery[list(which)]
    mirrored = torch.from_numpy(rng.random(count) < 0.5)[:, None, None, None]
    squares = torch.where(mirrored, squares.flip(-1), squares)
    masks = torch.from_numpy(np.stack([_box(side, rng) for _ in which]))[:, None].float()
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    masked = interface.masked(squares, masks, generator)
    spread = (rng.random() + rng.permutation(count) / count) % 1.0
    times = torch.from_numpy((spread * interface.moments).astype(np.int64))
    noise = torch.randn(masked.latents.shape, generator=generator)
    return Examples(masked, times, noise)


def _box(side: int, rng: np.random.Generator) -> Any:
    """Return a centred box, bool [S, S]."""
    mask = np.zeros((side, side), bool)
    height, width = (round(side * share) for share in rng.uniform(*SHARES, 2))
    top, left = (side - height) // 2, (side - width) // 2
    mask[top : top + height, left : left + width] = True
    return mask
