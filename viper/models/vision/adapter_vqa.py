"""How a BLIP answerer is taught: vectors before what its answer decoder attends to.

A prompt is float32 ``[17, W]``. Its first 16 rows, times a fixed matrix of the model, are put
before the states of the question, to which every layer of the decoder attends; the last row is all
ones. A case that the model got right by itself has a prompt of zeros. So the last row of a
mixture is the share of the weight that asks for another answer, and the other rows by that share
are the mean of the prompts that do: zeros hold back by a vote, and leave no half of a word.

Cases are told apart by the decoder's first state, from which the answer's first word is read: what
is asked and what is seen meet in it. Cosines of such states are all near 1, so a case is
described by random waves over them, and cosines of these fall off quickly.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.1; the waves: Rahimi and Recht 2007.
Differs: the paper's feature is the picture's alone, so that what was learned for one question
would answer all others about pictures like it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from viper.models.vision.roles import Floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

VECTORS = 16
"""Vectors before the question's states."""

SURE = 0.985
"""A surer answer of the model as it came stands."""

_WAVES = 1024
_SHARPNESS = 40.0
"""A cosine c of two first states becomes about exp(sharpness * (c - 1))."""

_START = 3.0
"""Standard deviation of the values that training starts from."""

_FLOOR = 0.03
"""Added to the strengths by which directions are evened out, as a share of their mean."""


class BlipAdapter:
    """The parts of a ``BlipForQuestionAnswering`` that a prompt goes through, differentiable.

    Weights are frozen once and for all.

    Args:
        model: the network.
        plain: its vision tower's output ``[tokens, width]`` for a plain grey picture; with an
            empty question the case that features are measured from.
        nothing: tokens of the empty question.

    Attributes:
        first_token: the decoder's own, before each answer.
    """

    def __init__(self, model: Any, plain: Tensor, nothing: Sequence[int]) -> None:
        self._model = model.requires_grad_(False)
        self.first_token = int(model.config.text_config.bos_token_id)
        self._origin = self._first_state(self.states(plain, nothing))

    @property
    def width(self) -> int:
        """Of the vectors."""
        return int(self._model.config.text_config.encoder_hidden_size)

    def states(self, seen: Tensor, question: Sequence[int]) -> Tensor:
        """What the decoder attends to, ``[1, L, W]``.

        Args:
            seen: ``[tokens, width]`` of the vision tower.
            question: its tokens.
        """
        import torch

        with torch.no_grad():
            ids = torch.tensor([list(question)], device=seen.device)
            # A copy: what was made in inference mode is of no use to gradients.
            return question_states(self._model, seen[None].clone(), ids)

    def feature(self, states: Tensor) -> Floats:
        """A case as prompts are found again by, float32 ``[2 * waves]`` of length 1."""
        from_origin = self._first_state(states) - self._origin
        unit = from_origin / max(float(np.linalg.norm(from_origin)), 1e-9)
        phases = self._waves @ unit
        found: Floats = np.concatenate([np.cos(phases), np.sin(phases)]).astype(np.float32)
        return found / np.float32(np.sqrt(len(phases)))

    def _first_state(self, states: Tensor) -> Floats:
        import torch

        with torch.no_grad():
            first = self._model.text_decoder.bert(
                input_ids=torch.full((1, 1), self.first_token, device=states.device),
                encoder_hidden_states=states,
                encoder_attention_mask=torch.ones(
                    states.shape[:2], dtype=torch.long, device=states.device
                ),
            ).last_hidden_state
        found: Floats = first[0, 0].float().cpu().numpy()
        return found

    @cached_property
    def _waves(self) -> Floats:
        # This generator gives the same numbers in every version of numpy, features are kept.
        drawn = np.random.RandomState(0).standard_normal((_WAVES, len(self._origin)))  # noqa: NPY002
        return (drawn * np.sqrt(_SHARPNESS)).astype(np.float32)

    @cached_property
    def start(self) -> Floats:
        """Where training starts, float32 ``[16, W]``: for all prompts alike, so that they mix."""
        drawn = np.random.RandomState(0).standard_normal((VECTORS, self.width))  # noqa: NPY002
        return (drawn * _START).astype(np.float32)

    @cached_property
    def _matrix(self) -> Tensor:
        """``[W, W]``: evens out how strongly directions reach the decoder.

        Its value projections pass some directions hundreds of times better than others, which
        gradient steps of one size cannot make good.
        """
        import torch

        layers = self._model.text_decoder.bert.encoder.layer
        device = layers[0].crossattention.output.dense.weight.device
        strength = torch.zeros(self.width, self.width, device=device)
        for layer in layers:
            attention = layer.crossattention
            through = attention.output.dense.weight.float() @ attention.self.value.weight.float()
            strength += through.T @ through
        values, directions = torch.linalg.eigh(strength)
        evened = (values.clamp(min=0) / values.mean() + _FLOOR).rsqrt()
        found: Tensor = directions @ torch.diag(evened) @ directions.T
        return found

    def before(self, vectors: Tensor) -> Tensor:
        """What is put before the question's states, ``[..., 16, W]``, of a prompt's vectors."""
        return vectors @ self._matrix

    def answer_logits(self, vectors: Tensor, states: Tensor, seen: Tensor, told: Tensor) -> Tensor:
        """Of every next token, ``[B, T, V]``, given those of the answer so far.

        Args:
            vectors: ``[B, 16, W]``.
            states: ``[B, L, W]`` of the questions.
            seen: 1 or 0 ``[B, L]``: which of them are no padding.
            told: tokens ``[B, T]``: the decoder's own first token, then the answer but its end.
        """
        import torch

        prefix = self.before(vectors).to(states.dtype)
        mask = torch.cat([seen.new_ones(prefix.shape[:2]), seen], dim=1)
        logits: Tensor = self._model.text_decoder(
            input_ids=told,
            encoder_hidden_states=torch.cat([prefix, states], dim=1),
            encoder_attention_mask=mask,
        ).logits
        return logits.float()


def question_states(model: Any, pictures: Tensor, ids: Tensor) -> Tensor:
    """What a BLIP model's decoder attends to, ``[B, L, W]``.

    Args:
        model: a ``BlipForQuestionAnswering``.
        pictures: ``[B, tokens, width]`` of its vision tower.
        ids: tokens of the questions ``[B, L]``.
    """
    states: Tensor = model.text_encoder(
        input_ids=ids,
        encoder_hidden_states=pictures,
        encoder_attention_mask=ids.new_ones(pictures.shape[:2]),
    ).last_hidden_state
    return states


def prompt_of(vectors: Floats) -> Floats:
    """What is kept of trained vectors ``[16, W]``: float32 ``[17, W]``."""
    return np.concatenate([vectors, np.ones_like(vectors[:1])]).astype(np.float32)


def vectors_of(prompt: Floats) -> Floats | None:
    """The vectors ``[16, W]`` of a prompt or a mixture; None where most of the weight is zeros.

    Raises:
        ValueError: another number of rows.
    """
    if prompt.shape[0] != VECTORS + 1:
        raise ValueError(f"a prompt of {prompt.shape[0]} rows; expected {VECTORS + 1}")
    share = float(prompt[-1].mean())
    return None if share <= 0.5 else (prompt[:-1] / share).astype(np.float32)
