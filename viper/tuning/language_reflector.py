"""Reflector that asks a language model what made an answer wrong, with the run as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

from viper.errors import UnknownNameError
from viper.models.llm.protocol import LLM, Sampling
from viper.prompting import reflection as prompts
from viper.prompting.builder import STYLES
from viper.strategies.critique import Critique
from viper.tools.session import ToolSession
from viper.tools.toolbox import Toolbox
from viper.tuning.case import Case, desired_text
from viper.tuning.critique import parse_critique, parse_fault
from viper.tuning.evidence import MOST_ITEMS, compact_steps, step_texts

Scope = Literal["global", "local"]

REPLY_TOKENS = 256
FAULT_TOKENS = 48

# Most tokens of a compact prompt. Details of the calls are removed until it fits.
COMPACT_LIMIT = 900

_MOST_LOCAL_STEPS = 40


class LanguageReflector:
    """The :class:`~viper.tuning.reflector.Reflector` of CLOVA: a language model reads the run.

    Scope ``global`` shows the whole run in one prompt. Scope ``local`` judges the calls one by one
    and stops at the first wrong one. CLOVA uses it if learning from the global critique did not
    help. The compact style only has a global form, for writers that were trained on it.

    Args:
        toolbox: captions patches for the prompts; None shows only their boxes.
        style: ``full``, ``chat`` or ``compact``.
        results: show the results of calls; False shows only program and answer (an ablation).

    Raises:
        UnknownNameError: the scope or style is unknown, or ``local`` with the compact style.
    """

    def __init__(
        self,
        llm: LLM,
        toolbox: Toolbox | None = None,
        style: str = "chat",
        scope: Scope = "global",
        results: bool = True,
    ) -> None:
        if style not in STYLES:
            raise UnknownNameError("prompt style", style, STYLES)
        scopes = get_args(Scope) if style != "compact" else ("global",)
        if scope not in scopes:
            raise UnknownNameError("scope of reflection", scope, scopes)
        self._llm, self._toolbox, self._style, self._scope = llm, toolbox, style, scope
        self._results = results

    def reflect(self, case: Case) -> Critique:
        """Return the critique of the model.

        Raises:
            CritiqueError: its reply names no location that can be understood.
        """
        tools = {call.index: call.tool for call in case.trial.tool_calls}
        if not self._results:
            case = replace(case, trial=replace(case.trial, tool_calls=()))
        if self._style == "compact":
            prompt = compact_prompt(case, self._llm.count_tokens)
            stops = Sampling(max_tokens=FAULT_TOKENS, stop=(prompts.END_OF_FAULT,))
            return parse_fault(self._llm.generate([prompt], stops)[0][0].text, tools)
        reflection = self._describe(case)
        if self._scope == "local":
            return self._step_by_step(case, reflection)
        return parse_critique(self._ask(prompts.build_global_prompt(reflection)), tools)

    def _step_by_step(self, case: Case, reflection: prompts.Reflection) -> Critique:
        calls = case.trial.tool_calls[:_MOST_LOCAL_STEPS]
        for place, call in enumerate(calls):
            reply = self._ask(prompts.build_local_prompt(reflection, place))
            critique = parse_critique(reply, {call.index: call.tool}, default_step=call.index)
            if critique.speaks:
                return critique
        reason = f"the language model found nothing wrong with any of {len(calls)} calls"
        return Critique("none", None, reason)

    def _ask(self, prompt: str) -> str:
        return self._llm.generate([prompt], Sampling(max_tokens=REPLY_TOKENS))[0][0].text

    def _describe(self, case: Case) -> prompts.Reflection:
        """Return the case as the prompts show it."""
        session = self._session(case)
        if self._scope == "local":
            log = case.trial.tool_calls[:_MOST_LOCAL_STEPS]
            return _reflection(case, tuple(step_texts(log, session)))
        return _reflection(case, tuple(step_texts(case.trial.tool_calls, session)))

    def _session(self, case: Case) -> ToolSession | None:
        if self._toolbox is None:
            return None
        return self._toolbox.session(case.media, thresholds=case.trial.thresholds)


def compact_prompt(
    case: Case, count_tokens: Callable[[str], int], limit: int = COMPACT_LIMIT
) -> str:
    """Build the compact prompt of a case, for training a writer to reflect and for using it.

    If the prompt is longer than the limit, first patches of long lists are removed, then calls from
    the middle of the run.
    """
    log = case.trial.tool_calls
    reflection = _reflection(case, ())
    prompt = ""
    for items in (MOST_ITEMS, 4, 2, 0):
        steps = compact_steps(log, items)
        prompt = prompts.build_fault_prompt(replace(reflection, steps=steps))
        if count_tokens(prompt) <= limit:
            return prompt
    steps = compact_steps(log, 0)
    while len(steps) > 1 and count_tokens(prompt) > limit:
        del steps[len(steps) // 2]
        prompt = prompts.build_fault_prompt(replace(reflection, steps=steps))
    return prompt


def _reflection(case: Case, steps: tuple[str, ...]) -> prompts.Reflection:
    answer, failure = case.answer, case.trial.failure
    text = "none" if answer is None else str(answer.value)
    if answer is None and failure is not None:
        text = f"none; it failed: {failure.kind}: {failure.message}"
    return prompts.Reflection(
        task=case.query.task,
        query=case.query.text,
        options=case.query.options,
        program=case.trial.program,
        steps=steps,
        answer=text,
        desired=desired_text(case),
        comment=case.comment,
        plan=case.plan,
    )
