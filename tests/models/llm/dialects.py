"""What servers of today refuse, each in its own words, as a behaviour of the tests' server."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from openai_server import Answer, Behaviour, Received, completion


@dataclass(frozen=True)
class Dialect:
    """A server and a model behind it.

    Attributes:
        model: a model's name there.
        refuses: fields of a request that it refuses.
        error: the status and body of a refusal that names a field.
        too_long: the status and body for a prompt longer than the context.
    """

    model: str
    refuses: tuple[str, ...]
    error: Callable[[str], tuple[int, Any]]
    too_long: tuple[int, Any]

    def answer(self, text: str) -> Behaviour:
        def behave(request: Received) -> Answer:
            for name in self.refuses:
                if name in request.body:
                    return _as_answer(self.error(name))
            if "exceed" in request.words:
                return _as_answer(self.too_long)
            return completion([text], request.path)

        return behave


def _as_answer(reply: tuple[int, Any]) -> Answer:
    status, body = reply
    return Answer(json.dumps(body), status)


def _openai(message: str, **more: Any) -> dict[str, Any]:
    fields = {"type": "invalid_request_error", "param": None, "code": None}
    return {"error": {"message": message, **fields, **more}}


def _unsupported(name: str) -> tuple[int, Any]:
    words = f"Unsupported parameter: '{name}' is not supported with this model."
    if name == "max_tokens":
        words += " Use 'max_completion_tokens' instead."
    return 400, _openai(words, param=name, code="unsupported_parameter")


def _google(name: str) -> tuple[int, Any]:
    words = f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
    return 400, [{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}]


def _anthropic(name: str) -> tuple[int, Any]:
    return 400, _openai(f"`{name}` is deprecated for this model.", param=None)


def _vllm(name: str) -> tuple[int, Any]:
    fields = {"object": "error", "type": "BadRequestError", "param": name, "code": 400}
    return 400, {"message": f"The parameter `{name}` is not supported.", **fields}


OPENAI_TOO_LONG = _openai(
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000.",
    param="messages",
    code="context_length_exceeded",
)

DIALECTS = {
    "openai-chat": Dialect("gpt-4.1-mini", (), _unsupported, (400, OPENAI_TOO_LONG)),
    "openai-reasoning": Dialect(
        "gpt-5-mini", ("max_tokens", "temperature", "stop"), _unsupported, (400, OPENAI_TOO_LONG)
    ),
    "openai-reasoning-of-another-name": Dialect(
        "my-deployment", ("max_tokens", "temperature", "stop"), _unsupported, (400, OPENAI_TOO_LONG)
    ),
    "google": Dialect(
        "gemini-3-flash",
        ("seed",),
        _google,
        (
            400,
            [
                {
                    "error": {
                        "code": 400,
                        "message": "The input token count (1100000) exceeds the maximum number of "
                        "tokens allowed (1048576).",
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ],
        ),
    ),
    "anthropic": Dialect(
        "claude-of-tomorrow",
        ("temperature",),
        _anthropic,
        (400, _openai("prompt is too long: 205077 tokens > 200000 maximum")),
    ),
    "vllm": Dialect(
        "Qwen/Qwen3-VL-8B-Instruct",
        ("max_completion_tokens",),
        _vllm,
        (
            400,
            _openai(
                "You passed 9000 input tokens and requested 512 output tokens. However, the "
                "model's context length is only 8192 tokens.",
                param="input_tokens",
            ),
        ),
    ),
    "vllm-old": Dialect(
        "Qwen/Qwen2.5-VL-7B-Instruct",
        (),
        _vllm,
        (
            400,
            {
                "object": "error",
                "message": "The prompt (total length 9000) is too long to fit into the model. Make "
                "sure that the prompt is no longer than the maximum model length of 8192.",
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            },
        ),
    ),
    "sglang": Dialect(
        "qwen",
        (),
        _vllm,
        (
            400,
            {
                "object": "error",
                "message": "The input (61709 tokens) is longer than the model's context length "
                "(40960 tokens).",
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            },
        ),
    ),
    "llama.cpp": Dialect(
        "ggml",
        (),
        _unsupported,
        (
            500,
            {
                "error": {
                    "code": 500,
                    "message": "the request exceeds the available context size. try increasing "
                    "the context size or enable context shift",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 1407,
                    "n_ctx": 256,
                }
            },
        ),
    ),
    "ollama": Dialect(
        "llava:7b",
        (),
        _unsupported,
        (200, {}),  # it cuts the prompt and says nothing
    ),
}
