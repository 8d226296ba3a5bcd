"""A run as a person reads it in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from viper.commands.kept_versions import indented, shown
from viper.reasoner import RunResult
from viper.schema import Answer, Failure, ToolCall, Trial, Turn


def answer_line(result: RunResult) -> str:
    """The answer in one line, or why there is none; says so where it is a fallback's."""
    if result.answer is None:
        return f"no answer: {failure_line(result.failure)}"
    noted = f" [fallback: {result.trace.fallback}]" if result.trace.fallback else ""
    return f"{_answer_text(result.answer)}{noted}"


def _answer_text(answer: Answer) -> str:
    if answer.kind == "box":
        numbers = ", ".join(f"{value:g}" for value in answer.box or ())
        where = f" in picture {answer.image_index}" if answer.image_index else ""
        return f"box [{numbers}]{where} (x0, y0, x1, y1 from the top-left corner)"
    if answer.kind == "choice":
        return f"({answer.choice_index}) {answer.value}"
    if answer.kind == "image":
        size = f"{answer.value['width']} x {answer.value['height']} pixels"
        return f"a picture of {size} (write it with --save FILE)"
    if answer.kind == "tags":
        return "; ".join(map(_tag_text, answer.value)) or "no tags"
    return str(answer.value)


def _is_outline(field: Any) -> bool:
    """Whether a field of a reference names an outline, or says that there is none."""
    return field == "" or str(field).startswith("outline-")


def _tag_text(tag: Mapping[str, Any]) -> str:
    return f"{tag['label']} [{', '.join(f'{side:g}' for side in tag['box'])}]"


def failure_line(failure: Failure | None) -> str:
    """A failure in one line: kind, place, message."""
    if failure is None:
        return "unknown"
    where = f" at line {failure.line}" if failure.line else ""
    blame = f" [{failure.tool}: {failure.parameter}]" if failure.parameter else ""
    return f"{failure.kind}{where}: {failure.message}{blame}"


def details(result: RunResult) -> Iterator[str]:
    """The plan, the program or the turns, the calls, and what was corrected, as lines."""
    trials = result.trace.trials
    if len(trials) > 1:
        for trial in trials:
            yield f"trial {trial.index + 1} ({trial.correction}): {_outcome(trial)}"
    if result.trace.plan:
        yield "plan:"
        yield from (f"    {line}" for line in result.trace.plan.splitlines())
    if result.program:
        yield "program:"
        yield from (f"    {line}" for line in result.program.splitlines())
    if result.trace.path:
        yield "steps:"
        yield from (f"    {shown(step_line(step))}" for step in result.trace.path)
    if result.trace.turns:
        yield "turns:"
        yield from (f"    {line}" for turn in result.trace.turns for line in turn_lines(turn))
    yield "tool calls:"
    yield from (f"    {call_line(call)}" for call in result.trace.tool_calls)
    if result.trace.votes:
        votes = (f"{count} for {text}" for text, count in result.trace.votes)
        yield f"votes: {'; '.join(votes)} (the answer is of trial {(result.trace.chosen or 0) + 1})"
    if result.trace.fallback:
        yield f"every trial failed; the fallback {result.trace.fallback} answered"
    usage = result.trace.usage
    yield (
        f"{result.trace.seconds:.2f} s, {usage.llm_calls} LLM calls "
        f"({usage.prompt_tokens} + {usage.completion_tokens} tokens), "
        f"{usage.model_calls} model calls, task {result.trace.task} ({result.trace.task_reason})"
    )


def step_line(step: Mapping[str, Any]) -> str:
    """One step of a search: the split, an action with its verdict, or the way back."""
    if "visual" in step:
        return f"to see: {step['visual']}; to know: {step['knowledge'] or '-'}"
    if "back" in step:
        return f"back from {step['back']} to {step['state']}"
    words = f"({_short(step['words'])})" if step["words"] else ""
    told = step.get("extracted") or step.get("reason") or ""
    failed = f"; failed: {step['failure']}" if "failure" in step else ""
    verdict = step.get("verdict", "no verdict")
    return f"{step['state']} > {step['action']}{words}: {verdict} {_short(told)}{failed}"


def turn_lines(turn: Turn) -> Iterator[str]:
    """A turn of an agent: what it did, line by line, and what came back."""
    by = ", by a checker" if turn.by == "checker" else ""
    yield f"{turn.index + 1} {turn.kind}{by}"
    if turn.text:
        yield from indented(turn.text)
    if turn.result:
        yield from (f"  > {line.strip()}" for line in indented(turn.result))


def call_line(call: ToolCall) -> str:
    """One tool call: arguments, result, time."""
    given = [_short(value) for value in call.args]
    given += [f"{key}={_short(value)}" for key, value in call.kwargs.items()]
    outcome = f"error: {call.error}" if call.error else _short(call.result)
    noted = f" (below {call.rejected_by})" if call.rejected_by else ""
    kept = ", cached" if call.cached else ""
    return (
        f"{call.tool}({', '.join(given)}) -> {outcome}{noted} [{call.seconds * 1000:.0f} ms{kept}]"
    )


def _outcome(trial: Trial) -> str:
    return "ok" if trial.ok else failure_line(trial.failure)


def _short(value: Any) -> str:
    if isinstance(value, dict) and {"kind", "fields"} <= set(value):
        known = [field for field in value["fields"] if not _is_outline(field)]
        fields = [f"{item:g}" if isinstance(item, float) else str(item) for item in known]
        return f"{value['kind']}({', '.join(fields)})"
    if isinstance(value, list):
        shown = ", ".join(_short(item) for item in value[:4])
        return f"[{shown}{', …' if len(value) > 4 else ''}]"
    if isinstance(value, float):
        return f"{value:.3g}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
