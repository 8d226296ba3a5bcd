"""Trains VQA: a prompt for each question that failed, a zero prompt for the others.

`VqaTuner.trained` encodes all questions (`_case`), trains the wrong ones by answer (`_train`) and
asks all again with each prompt (`_validate`).

Source: CLOVA (Gao et al. 2024), supplement, sec. 8.1: 16 vectors, language-modelling loss, Adam.
Differs: the rate is 0.03, because 100 steps at the paper's 0.001 hardly move vectors of this size.
Of several questions with the same answer, the first is trained before the others, which start from
its prompt and take the paper's 100 steps. A word that the model has never said needs some hundreds
of steps, and the mean of independently trained prompts would not work. The mean of prompts for
"pink" that started from one another answers "pink" for 12 of 12 new pictures. Tokens that are
predicted already weigh 0.2 in the loss, because in a whole answer they would outweigh the one word
that is new. Vectors have the width of the model, 768 in the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from viper.errors import UsageError
from viper.models.vision.adapter_vqa import VECTORS, BlipAdapter, prompt_of
from viper.models.vision.prompt_pool import Evidence
from viper.models.vision.roles import Floats
from viper.models.vision.soft_prompts import LEAST_ALIKE, NEAREST, LearnedPrompt, SoftPrompt, mix
from viper.tuning.soft_prompts import base

if TYPE_CHECKING:
    from torch import Tensor

# Steps of Adam for each prompt, the paper's. Differs in the rate (1e-3): start values here are
# large (`viper.models.vision.adapter_vqa`), and small steps would leave them where they are.
STEPS, RATE = 100, 0.03

# Most steps for the first question of an answer: it starts far from any answer, later ones from its
# prompt. Training ends once the answer is predicted.
FIRST_STEPS = 600

# Largest share of already right questions that a prompt may turn wrong: one of 20, since a prompt
# also reaches questions that are like its own by chance.
MOST_HARMED = 0.05

# A token counts as predicted if it is this many times as likely as any other token, so that it
# stays predicted when prompts are mixed.
_SAID = 1.3

# Weight in the loss of tokens that are already predicted; others have weight 1. Above 0, so that
# they do not become wrong again.
_SETTLED = 0.2


class VqaTuner(base.Tuner[Sequence[base.AnsweredQuestion]]):
    """The tuner of VQA on BLIP."""

    role = "vqa"

    def trained(self) -> list[base.TrainedPrompt]:
        """Train a prompt for each question that the model got wrong.

        A prompt is kept if its own question is answered right with it (as in the paper), and if,
        mixed with the zero prompts of other questions, it turns hardly any right answer wrong.
        """
        using, options = self.using, self.options
        if not self.data:
            raise UsageError("nothing to teach vqa with: expected at least one answered question")
        cases = [_case(using, case) for case in self.data]
        groups: dict[str, list[_Case]] = {}
        for case in cases:
            if not case.asked.right_already:
                groups.setdefault(case.asked.answer.strip().lower(), []).append(case)
        first, steps = (FIRST_STEPS, STEPS) if options.steps is None else [options.steps] * 2
        on_step = base.Steps(self.on_progress, len(groups) * (first + steps))
        for group in groups.values():
            with using() as backend:
                start = _adapter(backend).start[None]
            start = _train(using, group[:1], start, first, options, on_step, until_said=True)
            starts = np.repeat(start, len(group), axis=0)
            trained = _train(using, group, starts, steps, options, on_step)
            for case, vectors in zip(group, trained, strict=True):
                case.prompt = prompt_of(vectors)
        return [_validate(using, case, cases, options, first + steps) for case in cases]


@dataclass(eq=False)
class _Case:
    """A question in the model's encoding; ``prompt`` is the trained prompt, or zeros."""

    asked: base.AnsweredQuestion
    model_id: str
    encoding: Any
    states: Tensor
    answer: tuple[int, ...]
    feature: Floats
    prompt: Floats


def _case(using: base.Using, question: base.AnsweredQuestion) -> _Case:
    with using() as backend:
        adapter = _adapter(backend)
        encoding = backend.encode([question.pixels])[0]
        states = adapter.states(encoding, backend.tokens(question.question))
        answer = tuple(backend.tokens(question.answer)[1:])
        zeros = np.zeros((VECTORS + 1, adapter.width), np.float32)
        feature = adapter.feature(states)
        return _Case(question, backend.model_id, encoding, states, answer, feature, zeros)


def _adapter(backend: Any) -> BlipAdapter:
    adapter = getattr(backend, "adapter", None)
    if not isinstance(adapter, BlipAdapter):
        raise UsageError(
            f"{backend.model_id} takes no soft prompts; only BLIP's question answering models "
            "can: give the role vqa a backend of kind blip"
        )
    return adapter


def _train(
    using: base.Using,
    cases: Sequence[_Case],
    start: Floats,
    steps: int,
    options: base.TunerOptions,
    on_step: base.Steps,
    until_said: bool = False,
) -> Floats:
    """Train the vectors ``[B, 16, W]`` of cases with the same answer in one batch."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    device = cases[0].states.device
    states = pad_sequence([case.states[0] for case in cases], batch_first=True)  # (B, L, W)
    lengths = torch.tensor([case.states.shape[1] for case in cases], device=device)
    seen = (torch.arange(states.shape[1], device=device) < lengths[:, None]).long()
    answer = torch.tensor([case.answer for case in cases], device=device)  # (B, T)
    vectors = torch.from_numpy(start.copy()).to(device).requires_grad_(True)
    rate = RATE if options.rate is None else options.rate
    adam = torch.optim.Adam([vectors], lr=2 * rate if until_said else rate, betas=(0.9, 0.99))
    for step in range(steps):
        with using() as backend, torch.enable_grad():
            bos = backend.adapter.first_token
            inputs = torch.cat([torch.full_like(answer[:, :1], bos), answer[:, :-1]], dim=1)
            logits = backend.adapter.answer_logits(vectors, states, seen, inputs)
            losses, predicted = _losses(logits, answer)
            if until_said and bool(predicted.all()):
                on_step(steps - step)
                break
            adam.zero_grad()
            losses.backward()  # type: ignore[no-untyped-call]
            adam.step()
        on_step()
    return vectors.detach().cpu().numpy()


def _losses(logits: Tensor, answer: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss of the answers' tokens, and which of them are predicted, bool ``[B, T]``."""
    import torch

    likely = logits.log_softmax(dim=-1)
    own = likely.gather(2, answer[:, :, None])[:, :, 0]
    others = likely.detach().scatter(2, answer[:, :, None], -torch.inf).amax(dim=-1)
    predicted = own.detach() > others + float(np.log(_SAID))
    weight = torch.where(predicted, _SETTLED, 1.0)
    return -(own * weight).sum(), predicted


def _validate(
    using: base.Using, case: _Case, cases: Sequence[_Case], options: base.TunerOptions, steps: int
) -> base.TrainedPrompt:
    """Return a case's prompt with its evidence, and the reason if it is discarded."""
    prompt = SoftPrompt(case.feature, case.prompt)
    if case.asked.right_already:
        name = (case.asked.name,)
        right = Evidence(case.model_id, name, name, 1.0, 1.0, "inferred", seed=options.seed)
        return base.TrainedPrompt(prompt, right)
    answer = _answer(using, case, case.prompt)
    own = answer == case.asked.answer.strip().lower()
    others = [other for other in cases if other is not case and other.asked.right_already]
    harmed = sum(_harms(using, prompt, other, others) for other in others)
    seen = 1 + len(others)
    evidence = Evidence(
        case.model_id,
        (case.asked.name,),
        (case.asked.name, *(other.asked.name for other in others)),
        before=len(others) / seen,
        after=(own + len(others) - harmed) / seen,
        manner="inferred",
        steps=steps,
        seed=options.seed,
    )
    why = ""
    if options.validate and not own:
        why = f"asked again it answers {answer[:60]!r} instead of {case.asked.answer[:60]!r}"
    elif options.validate and harmed > MOST_HARMED * len(others):
        why = f"with it {harmed} of {len(others)} questions turn wrong that were right"
    return base.TrainedPrompt(prompt, evidence, why)


def _harms(using: base.Using, prompt: SoftPrompt, case: _Case, zeros: Sequence[_Case]) -> bool:
    """Return whether a prompt, mixed with others' zero prompts, turns a right answer wrong."""
    held = [SoftPrompt(other.feature, other.prompt) for other in zeros if other is not case]
    vectors = mix([prompt, *held], case.feature, NEAREST["vqa"], least=LEAST_ALIKE["vqa"])
    return vectors is not None and _answer(using, case, vectors) != case.asked.answer


def _answer(using: base.Using, case: _Case, vectors: Floats) -> str:
    with using() as backend:
        prompt, question = LearnedPrompt("", vectors), case.asked.question
        answer: str = backend.answer_adapted(case.encoding, question, prompt)
        return answer
