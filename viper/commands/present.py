"""Results of runs as people read them on a terminal.

:func:`print_result` prints the details on stderr, then the answer on stdout.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from viper.commands.terminal import echo_json, echo_thumbnail, indented, note, wrapped
from viper.errors import EXIT_FAILED, EXIT_OK, MediaError
from viper.escape import for_terminal, python_on_terminal, visible
from viper.models.llm.messages import Picture
from viper.record import outside, result_record, value_text
from viper.run_result import RunResult
from viper.schema import Failure, ToolCall, Trace, Trial, Turn
from viper.tools.session import is_shown, note_of


def print_result(
    result: RunResult,
    save: Path | None,
    *,
    as_json: int,
    program_only: bool = False,
    quiet: bool = False,
) -> int:
    """Print the result, then draw it if `save` names a file, and return the exit code.

    The answer is printed first, so that a file that cannot be written does not cost it.

    Args:
        as_json: version of a JSON object to print instead; 0 for text.
        quiet: print the answer and warnings only.
    """
    if as_json:
        echo_json(result_record(result.trace, [str(save)] if save is not None else [], as_json))
    elif program_only:
        program = result.program or ""
        click.echo(visible(program) if sys.stdout.isatty() else program)
    else:
        if not quiet:
            print_details(result)
        if result.warnings and result.trace.guess is None:  # else the failure says it
            text = " ".join(warning.text for warning in result.warnings)
            click.secho(f"warning: {for_terminal(text)}", fg="yellow", err=True)
        click.echo(answer_line(result))
    if save is not None:
        result.save(save)
    return EXIT_OK if result.answer is not None else EXIT_FAILED


def print_details(result: RunResult) -> None:
    """Print the details of a result on stderr, and thumbnails of the pictures that it showed."""
    for line in details(result):
        if isinstance(line, str):
            note(wrapped(line))
        else:
            echo_thumbnail(line.pixels)


def answer_line(result: RunResult) -> str:
    """Return the answer, or the reason why there is none, in one line that marks a fallback."""
    if result.answer is None:
        if result.trace.guess is not None and result.failure is not None:
            forced = " --force prints the guess." if result.failure.kind == "outside_domain" else ""
            return f"no answer: {visible(result.failure.explained)}{forced}"
        return f"no answer: {failure_sentence(result.trace)}"
    answer, text = result.answer, visible(str(result.answer.value))
    if answer.kind == "box":
        where = f" in picture {answer.image_index}" if answer.image_index else ""
        text = f"box {_sides(answer.box or ())}{where} (x0, y0, x1, y1 from the top-left corner)"
    elif answer.kind == "choice":
        text = f"({answer.choice_index}) {text}"
    elif answer.kind == "image":
        size = f"{answer.value['width']} x {answer.value['height']} pixels"
        text = f"a picture of {size} (write it with --save FILE)"
    elif answer.kind == "tags":
        tags = (f"{visible(tag['label'])} {_sides(tag['box'])}" for tag in answer.value)
        text = "; ".join(tags) or "no tags"
    elif answer.kind == "fields":
        read = (f"{each['field']}: {each['value'] or 'not found'}" for each in answer.value)
        text = visible("; ".join(read))
    return f"{text} [fallback: {result.trace.fallback}]" if result.trace.fallback else text


def _sides(box: Sequence[float]) -> str:
    return f"[{', '.join(f'{side:g}' for side in box)}]"


def failure_line(failure: Failure | None) -> str:
    """Return kind, line and message of a failure as one line."""
    if failure is None:
        return "unknown"
    where = f" at line {failure.line}" if failure.line else ""
    threshold = f" [{failure.tool}: {failure.parameter}]" if failure.parameter else ""
    return f"{failure.kind}{where}: {visible(failure.explained)}{threshold}"


def failure_sentence(trace: Trace) -> str:
    """Return the reason why a run has no answer as one sentence."""
    failure = trace.failure
    # A fallback that failed as well is a trial of its own, after the one with this failure.
    trial = next((each for each in reversed(trace.trials) if each.failure == failure), None)
    if failure is None or trial is None or failure.call_index is None or failure.parameter is None:
        return failure_line(failure)
    call = trial.tool_calls[failure.call_index]
    sought = next((repr(value) for value in call.args if isinstance(value, str)), call.tool)
    threshold = trial.thresholds[failure.parameter]
    best = next((f"best candidate {score:.2f}, " for score in call.scores if score < threshold), "")
    needed = f"needed {threshold:.2f}"
    if call.rejected_by is None:
        return f"Fewer things like {sought} were found than the program needs ({best}{needed})."
    return f"Nothing like {sought} was found ({best}{needed})."


def trial_line(trial: Trial) -> str:
    """Return number, reason and result of a trial as one line."""
    outcome = "ok" if trial.ok else failure_line(trial.failure)
    return f"trial {trial.index + 1} ({trial.correction}): {outcome}"


def details(result: RunResult) -> Iterator[str | Picture]:
    """Yield lines with the plan, the program or turns, the calls and the usage.

    After the lines of a turn come the pictures that it showed to the model.
    """
    trace = result.trace
    if len(trace.trials) > 1:
        failed = sum(not trial.ok for trial in trace.trials)
        yield f"{len(trace.trials)} trials, {failed} failed (-v prints each)"
    if trace.plan:
        yield "plan:"
        yield from (f"    {visible(line)}" for line in trace.plan.splitlines())
    if result.program:
        yield "program:"
        yield from (f"    {line}" for line in python_on_terminal(result.program))
    if trace.path:
        yield "steps:"
        yield from (f"    {for_terminal(step_line(step))}" for step in trace.path)
    if trace.turns:
        yield "turns:"
        for turn in trace.turns:
            yield from (f"    {line}" for line in turn_lines(turn))
            for call in trace.tool_calls:
                if call.index in turn.calls and is_shown(call):
                    shown = value_text(outside(call.result, trace.sizes))
                    yield f"      > {shown} {for_terminal(note_of(call))}".rstrip()
                    with suppress(LookupError, MediaError):  # a service keeps its pictures
                        yield Picture(result.media.pixels(call.result["fields"][0]))
    yield "tool calls:"
    yield from (f"    {call_line(call, trace.sizes)}" for call in trace.tool_calls)
    if trace.votes:
        votes = (f"{count} for {for_terminal(text)}" for text, count in trace.votes)
        yield f"votes: {'; '.join(votes)} (the answer is of trial {(trace.chosen or 0) + 1})"
    failed_checks = [check for check in trace.checks if not check.passed]
    if trace.checks:
        passed = len(trace.checks) - len(failed_checks)
        yield f"checks: {passed} of {len(trace.checks)} passed"
    for check in failed_checks:
        yield f"    {check.name}: {for_terminal(f'{check.seen} instead of {check.expected}')}"
    answered = result.answer or trace.guess
    if answered is not None and answered.confidence is not None:
        yield f"confidence: {answered.confidence:.2f}"
    if trace.fallback:
        yield f"every trial failed; the fallback {trace.fallback} answered"
    usage = trace.usage
    yield (
        f"{trace.seconds:.2f} s, {usage.llm_calls} LLM calls "
        f"({usage.prompt_tokens} + {usage.completion_tokens} tokens), "
        f"{usage.model_calls} model calls, task {trace.task} ({trace.task_reason})"
    )


def step_line(step: Mapping[str, Any]) -> str:
    """Return a step of a knowledge search: the split, an action and its verdict, or a return."""
    if "visual" in step:
        return f"to see: {step['visual']}; to know: {step['knowledge'] or '-'}"
    if "back" in step:
        return f"back from {step['back']} to {step['state']}"
    words = f"({value_text(step['words'])})" if step["words"] else ""
    detail = step.get("extracted") or step.get("reason") or ""
    failed = f"; failed: {step['failure']}" if "failure" in step else ""
    verdict = step.get("verdict", "no verdict")
    return f"{step['state']} > {step['action']}{words}: {verdict} {value_text(detail)}{failed}"


def turn_lines(turn: Turn) -> Iterator[str]:
    """Yield lines with a turn of an agent and its result."""
    by = ", by a checker" if turn.by == "checker" else ""
    yield f"{turn.index + 1} {turn.kind}{by}"
    if turn.kind == "code":
        yield from (f"    {line}" for line in python_on_terminal(turn.text.strip("\n")))
    elif turn.text:
        yield from indented(turn.text)
    if turn.result:
        yield from (f"  > {line.strip()}" for line in indented(turn.result))


def call_line(call: ToolCall, sizes: Mapping[str, tuple[int, int]]) -> str:
    """Return arguments, result and time of a tool call as one line, boxes as in an answer."""
    args, kwargs, result = outside([call.args, call.kwargs, call.result], sizes)
    arguments = [*map(value_text, args), *(f"{key}={value_text(kwargs[key])}" for key in kwargs)]
    outcome = f"error: {call.error}" if call.error else value_text(result)
    rejection = f" (below {call.rejected_by})" if call.rejected_by else ""
    time = f"{call.seconds * 1000:.0f} ms{', cached' if call.cached else ''}"
    return visible(f"{call.tool}({', '.join(arguments)}) -> {outcome}{rejection} [{time}]")
