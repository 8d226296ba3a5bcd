"""A finished run as the one JSON object that ``viper run --json`` prints."""

from __future__ import annotations

from typing import Any

from viper.reasoner import RunResult
from viper.schema import SCHEMA_VERSION, ToolCall, Trial, to_json


def result_record(result: RunResult, images: list[str] | None = None) -> dict[str, Any]:
    """The run as JSON values; null where a field does not apply.

    Boxes are ``[x0, y0, x1, y1]`` in pixels from the top-left corner.

    Args:
        result: the run.
        images: files the run wrote, if any.
    """
    trace, answer = result.trace, result.answer
    return {
        "schema": SCHEMA_VERSION,
        "query": trace.query.text,
        "task": trace.task,
        "task_reason": trace.task_reason,
        "answer": answer.value if answer else None,
        "answer_kind": answer.kind if answer else None,
        "choice_index": answer.choice_index if answer else None,
        "box": list(answer.box) if answer and answer.box else None,
        "image_index": answer.image_index if answer else None,
        "info": answer.info if answer else None,
        "images": images or [],
        "program": trace.program,
        "plan": trace.plan,
        "turns": [to_json(turn) for turn in trace.turns] or None,
        "path": list(trace.path) or None,
        "strategy": trace.strategy,
        "profile": trace.profile,
        "api": trace.api,
        "api_left_out": list(trace.left_out),
        "seed": trace.seed,
        "failure": to_json(trace.failure) if trace.failure else None,
        "fallback": trace.fallback,
        "trials": [_trial(trial) for trial in trace.trials],
        "chosen": trace.chosen,
        "votes": [{"answer": text, "count": count} for text, count in trace.votes],
        "tool_calls": [_call(call) for call in trace.tool_calls],
        "usage": to_json(trace.usage),
        "seconds": trace.seconds,
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "program": trial.program,
        "correction": trial.correction,
        "ok": trial.ok,
        "failure": to_json(trial.failure) if trial.failure else None,
        "thresholds": dict(trial.thresholds),
        "seconds": trial.seconds,
        "seed": trial.seed,
        "temperature": trial.temperature,
        "stdout": trial.stdout,
        "writing": to_json(trial.writing),
        "writing_seconds": trial.writing_seconds,
        "plan": trial.plan,
        "demonstrations": list(trial.demonstrations),
    }


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "index": call.index,
        "tool": call.tool,
        "args": to_json(call.args),
        "kwargs": to_json(call.kwargs),
        "result": to_json(call.result),
        "seconds": call.seconds,
        "cached": call.cached,
        "rejected_by": call.rejected_by,
        "shortened_by": call.shortened_by,
        "judged_by": call.judged_by,
        "scores": list(call.scores),
        "error": call.error,
        "line": call.line,
    }
