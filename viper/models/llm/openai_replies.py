"""Checked replies of an OpenAI-compatible server.

This module reads the raw text, because the client builds its objects without checking them. A reply
of another shape would only show later, as a missing attribute.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from viper.errors import UsageError
from viper.models.llm.prompt_tokens import Echo
from viper.models.llm.retry import TransientError


@dataclass(frozen=True)
class Choice:
    """One text. ``finish_reason`` is ``stop``, ``length`` or ``refusal``; ``first_logprobs`` are
    those of the likeliest first tokens, if the server reports them.
    """

    text: str
    finish_reason: str
    first_logprobs: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Reply:
    """Reply with at least one choice, in the server's order; unreported token counts are None."""

    choices: tuple[Choice, ...]
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class NoEchoError(UsageError):
    """The endpoint does not report the likelihoods of a prompt's tokens."""


def read_reply(text: str) -> Reply:
    """Return the choices of a chat or plain completion.

    Raises:
        TransientError: no JSON, no choices, or choices without text.
    """
    data = _read(text)
    prompt_tokens, completion_tokens = _counts(data)
    choices = tuple(_choice(each) for each in _choices(data))
    return Reply(choices, prompt_tokens, completion_tokens)


def read_echoes(text: str, expected: int) -> tuple[list[Echo], int]:
    """Return the echo of every prompt in order, and the number of tokens of all prompts.

    Raises:
        TransientError: no JSON, no choices.
        NoEchoError: completions without the likelihoods of their prompts.
    """
    data = _read(text)
    choices = _choices(data)
    if len(choices) != expected:
        raise NoEchoError(f"{expected} prompts were sent to be echoed, {len(choices)} came back")
    return [_echo(each) for each in choices], _counts(data)[0] or 0


def _read(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise TransientError(f"expected JSON, got {_quote(text)}") from None
    if not isinstance(data, dict):
        raise TransientError(f"expected a JSON object, got {_quote(text)}")
    return data


def _choices(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    choices = data.get("choices")
    good = isinstance(choices, list) and all(isinstance(each, dict) for each in choices)
    if not good or not choices:
        raise TransientError(f"expected choices, got {_quote(json.dumps(data))}")
    if all(isinstance(each.get("index"), int) for each in choices):
        choices.sort(key=lambda each: each["index"])
    return list(choices)


def _choice(data: Mapping[str, Any]) -> Choice:
    message = data.get("message")
    if not isinstance(message, dict):
        text = data.get("text")
    elif isinstance(message.get("refusal"), str) and message["refusal"]:
        return Choice(message["refusal"], "refusal")
    else:
        text = _content(message)
    finish = data.get("finish_reason")
    reason = {"length": "length", "content_filter": "refusal"}.get(str(finish), "stop")
    if text is None and (reason != "stop" or _reasoned(message)):
        # A reasoning model may use up its tokens before it starts to answer.
        text = ""
    if not isinstance(text, str):
        raise TransientError(f"expected a choice with text, got {_quote(json.dumps(data))}")
    return Choice(text, reason, _first_logprobs(data))


def _first_logprobs(choice: Mapping[str, Any]) -> dict[str, float] | None:
    try:
        tokens = choice["logprobs"]["content"][0]["top_logprobs"]
        return {str(token["token"]): float(token["logprob"]) for token in tokens} or None
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _content(message: Mapping[str, Any]) -> Any:
    """Return the text of a message: its content, the texts of its parts, or its tool calls."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        texts = [part.get("text") for part in parts if part.get("type") in ("text", "output_text")]
        content = "\n".join(text for text in texts if isinstance(text, str))
    calls = message.get("tool_calls")
    if content or not isinstance(calls, list):
        return content
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    return "\n".join(json.dumps(function) for function in functions if function) or content


def _reasoned(message: Any) -> bool:
    return isinstance(message, dict) and bool(
        message.get("reasoning_content") or message.get("reasoning")
    )


def _counts(data: Mapping[str, Any]) -> tuple[int | None, int | None]:
    usage = data.get("usage")
    counts: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    return (
        prompt if isinstance(prompt, int) and prompt >= 0 else None,
        completion if isinstance(completion, int) and completion >= 0 else None,
    )


def _echo(choice: Mapping[str, Any]) -> Echo:
    logprobs = choice.get("logprobs")
    fields: Mapping[str, Any] = logprobs if isinstance(logprobs, dict) else {}
    tokens: Any = fields.get("tokens")
    values: Any = fields.get("token_logprobs")
    if not _good_echo(tokens, values):
        raise NoEchoError("the answer holds no likelihoods of the prompt's tokens")
    # Servers give the first token no likelihood, because no token precedes it.
    return Echo(tuple(tokens), (0.0, *map(float, values[1:])))


def _good_echo(tokens: Any, values: Any) -> bool:
    lists = isinstance(tokens, list) and isinstance(values, list)
    return (
        lists
        and len(tokens) == len(values) > 0
        and all(isinstance(token, str) for token in tokens)
        and all(isinstance(value, int | float) and math.isfinite(value) for value in values[1:])
    )


def _quote(text: str) -> str:
    return f"{text[:80]!r}" if text.strip() else "nothing"
