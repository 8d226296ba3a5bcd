"""Adapter of BLIP answerers: vectors before the states that the answer decoder attends to.

A prompt is float32 ``[17, W]``. Its first 16 rows, times a fixed matrix of the model, come before
the states of the question, to which every layer of the decoder attends. The last row is all ones. A
case that the model got right by itself has a prompt of zeros. The last row of a mixture is
therefore the share of the weight that asks for another answer. The other rows divided by that share
are the mean of those prompts. Zeros thus act as a vote against and never halve a vector.

The decoder's first state distinguishes cases, because it combines question and picture and yields
the answer's first word. Cosines of such states are all near 1. A case is therefore described by
random waves over them, whose cosines fall off quickly.

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.1; the waves: Rahimi and Recht 2007.
Differs: the paper's feature is the picture's alone, so a prompt learned for one question would
answer all others about similar pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from viper.models.libraries import Tensor, torch
from viper.models.vision.roles import Floats

# Number of vectors before the question's states (supplement, sec. 8.1.2).
VECTORS = 16

# An answer of the unadapted model with a higher probability stays: what it knows, it need not be
# taught. Close to 1, because such models are also rather sure of wrong words.
SURE = 0.985

# Random waves estimate a similarity with a deviation of 1 / sqrt(2 * 1024) = .02; a stored feature
# takes 8 KB.
_WAVES = 1024

# A cosine c of two first states becomes about exp(sharpness * (c - 1)): .14 at a cosine of .95,
# since the cosines of unlike questions are near 1, too.
_SHARPNESS = 40.0

# Standard deviation of the start values of training, large so that the decoder attends to the
# vectors from the first step, without which no gradient reaches them.
_START = 3.0

# Added to the strengths of directions before they are equalised, as a share of their mean: the
# weakest are amplified no more than 1 / sqrt(.03) = 6 times, since they may be noise.
_FLOOR = 0.03


class BlipAdapter:
    """Differentiable parts of a ``BlipForQuestionAnswering`` that a prompt passes through.

    Its weights are frozen permanently.

    Args:
        model: the network.
        plain: its vision tower's output ``[tokens, width]`` for a plain grey picture; with an
            empty question it is the origin of features.
        nothing: tokens of the empty question.

    Attributes:
        first_token: the decoder's start token before each answer.
    """

    def __init__(self, model: Any, plain: Tensor, nothing: Sequence[int]) -> None:
        self._model = model.requires_grad_(False)
        self.first_token = int(model.config.text_config.bos_token_id)
        self._origin = self._first_state(self.states(plain, nothing))

    @property
    def width(self) -> int:
        """Return the width of the vectors."""
        return int(self._model.config.text_config.encoder_hidden_size)

    def states(self, picture: Tensor, question: Sequence[int]) -> Tensor:
        """Return the states that the decoder attends to, ``[1, L, W]``.

        Args:
            picture: ``[tokens, width]`` of the vision tower.
            question: its tokens.
        """
        with torch.no_grad():
            ids = torch.tensor([list(question)], device=picture.device)
            # A copy, because tensors of inference mode cannot take part in gradients.
            return question_states(self._model, picture[None].clone(), ids)

    def feature(self, states: Tensor) -> Floats:
        """Return the feature of a case that selects prompts, float32 ``[2 * waves]`` of
        length 1.
        """
        from_origin = self._first_state(states) - self._origin
        unit = from_origin / max(float(np.linalg.norm(from_origin)), 1e-9)
        phases = self._waves @ unit
        feature: Floats = np.concatenate([np.cos(phases), np.sin(phases)]).astype(np.float32)
        return feature / np.float32(np.sqrt(len(phases)))

    def _first_state(self, states: Tensor) -> Floats:
        with torch.no_grad():
            first = self._model.text_decoder.bert(
                input_ids=torch.full((1, 1), self.first_token, device=states.device),
                encoder_hidden_states=states,
                encoder_attention_mask=torch.ones(
                    states.shape[:2], dtype=torch.long, device=states.device
                ),
            ).last_hidden_state
        return first[0, 0].float().cpu().numpy()

    @cached_property
    def _waves(self) -> Floats:
        # This generator gives the same numbers in every version of numpy, features are kept.
        directions = np.random.RandomState(0).standard_normal((_WAVES, len(self._origin)))  # noqa: NPY002
        return (directions * np.sqrt(_SHARPNESS)).astype(np.float32)

    @cached_property
    def start(self) -> Floats:
        """Return the start of training, float32 ``[16, W]``, equal for all prompts so that they
        mix.
        """
        values = np.random.RandomState(0).standard_normal((VECTORS, self.width))  # noqa: NPY002
        return (values * _START).astype(np.float32)

    @cached_property
    def _matrix(self) -> Tensor:
        """Return the matrix ``[W, W]`` that equalises how strongly directions reach the decoder.

        The decoder's value projections pass some directions hundreds of times better than others,
        which gradient steps of one size cannot correct.
        """
        layers = self._model.text_decoder.bert.encoder.layer
        device = layers[0].crossattention.output.dense.weight.device
        strength = torch.zeros(self.width, self.width, device=device)
        for layer in layers:
            attention = layer.crossattention
            through = attention.output.dense.weight.float() @ attention.self.value.weight.float()
            strength += through.T @ through
        values, directions = torch.linalg.eigh(strength)
        evened = (values.clamp(min=0) / values.mean() + _FLOOR).rsqrt()
        return directions @ torch.diag(evened) @ directions.T

    def before(self, vectors: Tensor) -> Tensor:
        """Return the states to put before the question's, ``[..., 16, W]``, for a prompt's
        vectors.
        """
        return vectors @ self._matrix

    def answer_logits(
        self, vectors: Tensor, states: Tensor, states_mask: Tensor, answer_ids: Tensor
    ) -> Tensor:
        """Return the logits of every next token, ``[B, T, V]``, given the answer so far.

        Args:
            vectors: ``[B, 16, W]``.
            states: ``[B, L, W]`` of the questions.
            states_mask: 1 or 0 ``[B, L]``: 0 marks padding among the states.
            answer_ids: tokens ``[B, T]``: the decoder's start token, then the answer but its end.
        """
        prefix = self.before(vectors).to(states.dtype)
        mask = torch.cat([states_mask.new_ones(prefix.shape[:2]), states_mask], dim=1)
        logits: Tensor = self._model.text_decoder(
            input_ids=answer_ids,
            encoder_hidden_states=torch.cat([prefix, states], dim=1),
            encoder_attention_mask=mask,
        ).logits
        return logits.float()


def question_states(model: Any, pictures: Tensor, ids: Tensor) -> Tensor:
    """Return the states that a BLIP model's decoder attends to, ``[B, L, W]``.

    Args:
        model: a ``BlipForQuestionAnswering``.
        pictures: ``[B, tokens, width]`` of its vision tower.
        ids: tokens of the questions ``[B, L]``.
    """
    return model.text_encoder(
        input_ids=ids,
        encoder_hidden_states=pictures,
        encoder_attention_mask=ids.new_ones(pictures.shape[:2]),
    ).last_hidden_state


def prompt_of(vectors: Floats) -> Floats:
    """Return the stored form, float32 ``[17, W]``, of trained vectors ``[16, W]``."""
    return np.concatenate([vectors, np.ones_like(vectors[:1])]).astype(np.float32)


def vectors_of(prompt: Floats) -> Floats | None:
    """Return the vectors ``[16, W]`` of a prompt or a mixture, or None if most of the weight is
    zeros.

    Raises:
        ValueError: another number of rows.
    """
    if prompt.shape[0] != VECTORS + 1:
        raise ValueError(f"a prompt of {prompt.shape[0]} rows; expected {VECTORS + 1}")
    share = float(prompt[-1].mean())
    # With half of the weight, the similar cases that the model got right outvote the others.
    return None if share <= 0.5 else (prompt[:-1] / share).astype(np.float32)
