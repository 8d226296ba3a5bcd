"""Reflector that asks a language model what made an answer wrong, with the run as text.

`LanguageReflector.reflect` writes the case as a prompt, asks the model, and parses the reply
(`parse_critique`) leniently. Of a wrong call of VQA it asks for the right answer in a request of
its own (`_with_answer`). Nothing of a reply is ever executed.

Source: CLOVA (Gao et al. 2024), sec. 3.3, figures 14 to 16: global and local reflection, and the
inference of the wanted VQA answer. The global prompt and the inference show one example, the local
prompt none, as there. Differs: all words are ours, and the examples are Python for every API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, get_args

from viper.errors import UnknownNameError
from viper.models.llm.protocol import LLM, Sampling
from viper.models.llm.replies import json_parts, without_reasoning
from viper.prompting import reflection as prompts
from viper.sandbox import Ref
from viper.schema import ToolCall
from viper.strategies.critique import LOCATIONS, TOOL, Critique, CritiqueError
from viper.tools.call_log import plain
from viper.tools.toolbox import Toolbox
from viper.tuning.case import Case, desired_text, tags_text
from viper.tuning.evidence import captions_by, step_texts
from viper.tuning.soft_prompts.base import FUNCTION_TOOLS

Scope = Literal["global", "local"]

# Four short fields.
REPLY_TOKENS = 256

# Each step is one request to the language model.
_MOST_LOCAL_STEPS = 40


class LanguageReflector:
    """The :class:`~viper.tuning.reflector.Reflector` of CLOVA: a language model reads the run.

    Scope ``global`` shows the whole run in one prompt. Scope ``local`` judges the calls one by one
    and stops at the first wrong one. CLOVA uses it if learning from the global critique did not
    help.

    Args:
        toolbox: captions patches for the prompts; None shows only their boxes.
        results: show the results of calls; False shows only program and answer (an ablation).

    Raises:
        UnknownNameError: the scope is unknown.
    """

    def __init__(
        self,
        llm: LLM,
        toolbox: Toolbox | None = None,
        scope: Scope = "global",
        results: bool = True,
    ) -> None:
        if scope not in get_args(Scope):
            raise UnknownNameError("scope of reflection", scope, get_args(Scope))
        self._llm, self._toolbox, self._scope = llm, toolbox, scope
        self._results = results

    def reflect(self, case: Case) -> Critique:
        """Return the critique of the model.

        Raises:
            CritiqueError: its reply names no location that can be understood.
        """
        tools = {call.index: call.tool for call in case.trial.tool_calls}
        if not self._results:
            case = replace(case, trial=replace(case.trial, tool_calls=()))
        calls = case.trial.tool_calls
        if self._scope == "local":
            calls = calls[:_MOST_LOCAL_STEPS]
        reflection = self._seen(case, calls)
        if self._scope == "global":
            reply = self._ask(prompts.build_global_prompt(reflection))
            return self._with_answer(parse_critique(reply, tools), reflection)
        for place, call in enumerate(calls):
            reply = self._ask(prompts.build_local_prompt(reflection, place))
            critique = parse_critique(reply, {call.index: call.tool}, default_step=call.index)
            if critique.speaks:
                return self._with_answer(critique, reflection)
        reason = f"the language model found nothing wrong with any of {len(calls)} calls"
        return Critique("none", None, reason)

    def accepts(self, now: Case, before: Case) -> bool:
        """Return whether a new result meets the comment on the result before."""
        reflection = self._seen(now, now.trial.tool_calls)
        earlier = self._seen(before, ()).answer
        reply = self._ask(prompts.build_acceptance_prompt(reflection, earlier))
        return (_WORDS.findall(without_reasoning(reply).lower()) or [""])[0] == "yes"

    def _with_answer(self, critique: Critique, reflection: prompts.Reflection) -> Critique:
        """Return the critique with the answer that VQA should have given, if VQA is at fault."""
        if FUNCTION_TOOLS.get(critique.tool or "") != "vqa" or critique.step is None:
            return critique
        reply = self._ask(prompts.build_answer_prompt(reflection, critique.step, critique.reason))
        lines = without_reasoning(reply).strip().splitlines()
        answer = re.sub(r"^\W*(answer|desired)\W*:", "", lines[-1], flags=re.I) if lines else ""
        return replace(critique, desired=answer.strip(" \"'`*.") or critique.desired)

    def _seen(self, case: Case, calls: Sequence[ToolCall]) -> prompts.Reflection:
        """Return the case in words: steps, first picture and an answer that is a picture."""
        session = None
        if self._toolbox is not None:
            session = self._toolbox.session(case.media, thresholds=case.trial.thresholds)
        caption, shown = captions_by(session), ""
        if case.answer is not None and case.answer.kind == "image":
            size = (case.answer.value["width"], case.answer.value["height"])
            shown = caption(plain(Ref("image", (case.answer.value["picture"], *size))))
        picture = ""
        if case.media.images:
            height, width = case.media.images[0].shape[:2]
            picture = caption(plain(Ref("image", ("image0", width, height))))
        steps = tuple(step_texts(calls, session))
        return replace(_reflection(case, steps, shown), picture=picture)

    def _ask(self, prompt: str) -> str:
        return self._llm.generate([prompt], Sampling(max_tokens=REPLY_TOKENS))[0][0].text


def _reflection(case: Case, steps: tuple[str, ...], shown: str = "") -> prompts.Reflection:
    answer, failure = case.answer, case.trial.failure
    text = "none" if answer is None else str(answer.value)
    if answer is None and failure is not None:
        text = f"none; it failed: {failure.kind}: {failure.message}"
    elif answer is not None and answer.kind == "image":
        text = f"a picture{f' that shows {shown}' if shown else ''}"
    elif answer is not None and answer.kind == "tags":
        text = tags_text([(tag["label"], tag["box"]) for tag in answer.value], case.media)
    return prompts.Reflection(
        task=case.query.task,
        query=case.query.text,
        options=case.query.options,
        program=case.trial.program,
        steps=steps,
        answer=text,
        desired=desired_text(case),
        comment=case.comment,
        plan=case.trial.plan or "",
    )


# A paragraph; the reason is shown in prompts as the critique of a demonstration.
LONGEST_REASON = 600

# Far more than `REPLY_TOKENS` allow; it bounds the regular expressions on replies of other sources.
_LONGEST_READ = 20_000

# Names that a model may use for each field.
_NAMES = {
    "location": ("location", "fault", "blame", "error location", "where"),
    "tool": ("tool", "tool name"),
    "step": ("step", "call", "step number"),
    "reason": ("reason", "why", "explanation"),
    "desired": ("desired", "desired output", "expected", "correct output"),
}
_FIELDS = {name: field for field, names in _NAMES.items() for name in names}

_LINE = re.compile(
    r"^[\s>#*_`\-\d.)]*(?P<name>" + "|".join(sorted(_FIELDS, key=len, reverse=True)) + r")"
    r"[\s*_`]*[:=][\s*`]*(?P<value>.*?)[\s*`]*$",
    re.IGNORECASE,
)
_NOTHING = {"", "none", "null", "n/a", "nothing", "unknown", "-", "no", "no error", "correct"}
_WORDS = re.compile(r"[a-z_][a-z0-9_]*")


def parse_critique(
    text: str, tools: Mapping[int, str] | None = None, default_step: int | None = None
) -> Critique:
    """Parse the critique that a language model wrote.

    The text holds a JSON object, plain or in a fence, or lines ``name: value`` in any order and
    case, with or without markdown. Missing fields stay empty. A step without a tool takes the tool
    from ``tools``. A tool without a step takes the tool's step if there is only one.

    Args:
        tools: tool names of the judged run by call index. Other tools and steps are ignored.
        default_step: step to use if the text names none.

    Raises:
        CritiqueError: the text names no location that can be understood.
    """
    text = without_reasoning(text[:_LONGEST_READ])
    excerpt = " ".join(text.split())[:80]
    fields = _json_fields(text) or _line_fields(text)
    if not fields:
        raise CritiqueError(
            f"no critique in {excerpt!r}; expected lines such as 'location: tool' and 'step: 2'"
        )
    number = re.search(r"\d{1,4}", fields.get("step", ""))
    step = default_step
    if number is not None and (tools is None or int(number[0]) in tools):
        step = int(number[0])
    location = _location(fields, tools)
    if location is None and step is not None and tools and step in tools:
        location = TOOL + tools[step]
    if location is None:
        raise CritiqueError(
            f"no location in {excerpt!r}; expected plan, program, none or the name of a tool"
        )
    if location in LOCATIONS:
        step = None
    elif tools:
        step = _step_of(location, step, tools)
    desired = fields.get("desired", "").strip()
    return Critique(
        location,
        step,
        " ".join(fields.get("reason", "").split())[:LONGEST_REASON],
        None if desired.lower() in _NOTHING else desired,
    )


def _step_of(location: str, step: int | None, tools: Mapping[int, str]) -> int | None:
    """Return the step if it is a call of that tool, else the tool's only step."""
    own = [index for index, name in tools.items() if TOOL + name == location]
    if step in own:
        return step
    return own[0] if len(own) == 1 else None


def _json_fields(text: str) -> dict[str, str]:
    """Return the fields of the first JSON object in a text that has a known field."""
    for _, _, value in json_parts(text):
        if not isinstance(value, dict):
            continue
        fields = {}
        for key, item in value.items():
            name = _FIELDS.get(str(key).lower().replace("_", " "))
            if name is not None:
                text = item if isinstance(item, str) else json.dumps(item)
                fields[name] = "" if item is None else text
        if fields:
            return fields
    return {}


def _line_fields(text: str) -> dict[str, str]:
    """Return the fields of lines ``name: value``.

    A line without a name continues the line before.
    """
    fields: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is not None:
            name = _FIELDS[match["name"].lower()]
            last = "" if name in fields else name
            fields.setdefault(name, match["value"])
        elif last and line.strip() and not line.lstrip().startswith("```"):
            fields[last] += f" {line.strip()}"
        else:
            last = ""
    return fields


def _location(fields: Mapping[str, str], tools: Mapping[int, str] | None) -> str | None:
    """Return the location that the fields ``tool`` and ``location`` name, or None.

    A tool's name overrules the word ``tool``.
    """
    names = None if tools is None else set(tools.values())
    for text in (fields.get("tool", ""), fields.get("location", "")):
        lowered = text.strip().strip("'\"`.").lower()
        words = _WORDS.findall(lowered)
        if names is not None:
            named = [name for name in names if name.lower() in words]
            if len(named) == 1:
                return TOOL + named[0]
        elif lowered.startswith("tool") and len(words) > 1:
            return TOOL + words[1]
        elif text == fields.get("tool") and lowered not in _NOTHING and words:
            return TOOL + words[0]
    lowered = fields.get("location", "").strip().strip("'\"`.").lower()
    for word in ("program", "plan"):
        if word in _WORDS.findall(lowered):
            return word
    return "none" if "location" in fields and lowered in _NOTHING else None
