"""A stand-in for the package ``vllm``: its asynchronous engine, on words instead of a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import ModuleType, SimpleNamespace
from typing import Any

HELD, BROKEN, FAILING = "held", "broken", "failing"
"""Words of prompts that wait for :attr:`Engine.released`, or fail at once or midway."""


class Tokenizer:
    """A word is a token; ``len:7`` asks for a completion of seven words."""

    chat_template: str | None = None
    added_tokens_decoder: dict[int, Any] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.words: list[str] = []

    def encode(
        self, text: str, *, add_special_tokens: bool = True, truncation: bool = False
    ) -> list[int]:
        for word in text.split():
            if word not in self.words:
                self.words.append(word)
        return [self.words.index(word) for word in text.split()]


class Template:
    """Renders conversations with a line for each turn, as a processor does."""

    def __init__(self, chat_template: str | None = "lines") -> None:
        self.chat_template = chat_template
        self.kwargs: list[dict[str, Any]] = []

    def apply_chat_template(self, turns: list[Any], **kwargs: Any) -> str:
        self.kwargs.append(kwargs)
        lines = [f"<{turn['role']}> {_text(turn['content'])}" for turn in turns]
        return "\n".join([*lines, "<assistant>"])


def _text(content: str | list[dict[str, str]]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", f"<{part['type']}>") for part in content)


class Engine:
    """Decodes a word of every running request in each step.

    Attributes:
        arguments: those of the engine.
        requests: name, prompt and sampling parameters of every request, oldest first.
        running: names of the requests that are under way.
        finished: names of the finished requests, the first first.
        aborted: names of the requests that were cancelled.
        most: the most requests that ran at once.
        together: no request is decoded before so many have come.
    """

    multimodal = False
    tokenizer_template: str | None = None

    def __init__(self, arguments: Any) -> None:
        self.arguments = vars(arguments)
        if "models--missing" in self.arguments["model"]:
            raise ValueError("no such model\nsecond line")
        self.requests: list[tuple[str, dict[str, Any], Any]] = []
        self.running: set[str] = set()
        self.finished: list[str] = []
        self.aborted: list[str] = []
        self.most, self.together = 0, 1
        self.begun, self.released = asyncio.Event(), asyncio.Event()
        self.ended = False
        self.model_config = SimpleNamespace(is_multimodal_model=self.multimodal, max_model_len=400)
        self.tokenizer = Tokenizer()
        self.tokenizer.chat_template = self.tokenizer_template

    @classmethod
    def from_engine_args(cls, arguments: Any) -> Engine:
        asyncio.get_running_loop()
        return cls(arguments)

    def get_tokenizer(self) -> Tokenizer:
        return self.tokenizer

    def shutdown(self) -> None:
        self.ended = True

    async def generate(
        self, request: dict[str, Any], parameters: Any, name: str
    ) -> AsyncIterator[Any]:
        words = [self.tokenizer.words[each] for each in request["prompt_token_ids"]]
        if BROKEN in words:
            raise LookupError("the engine rejects this\nsecond line")
        self.requests.append((name, request, parameters))
        self.running.add(name)
        self.most = max(self.most, len(self.running))
        try:
            if len(self.requests) >= self.together:
                self.begun.set()
            await self.begun.wait()
            if HELD in words:
                await self.released.wait()
            if FAILING in words:
                raise RuntimeError from ValueError("out of blocks")
            length = next((int(word[4:]) for word in words if word.startswith("len:")), 3)
            for _ in range(min(length, parameters.max_tokens)):
                await asyncio.sleep(0)
            self.finished.append(name)
            yield _output(request, parameters, length)
        except asyncio.CancelledError:
            self.aborted.append(name)
            raise
        finally:
            self.running.remove(name)


def _output(request: dict[str, Any], parameters: Any, length: int) -> Any:
    ids = request["prompt_token_ids"]
    count = min(length, parameters.max_tokens)
    likely = SimpleNamespace(decoded_token="yes", logprob=-0.5)
    completions = [
        SimpleNamespace(
            index=index,
            text=f"{parameters.seed}.{index}" + " word" * count,
            token_ids=[0] * count,
            finish_reason="length" if count < length else "stop",
            logprobs=[{0: likely}] if getattr(parameters, "logprobs", None) else None,
        )
        for index in reversed(range(getattr(parameters, "n", 1)))
    ]
    echo = [None, *({token: SimpleNamespace(logprob=-float(token))} for token in ids[1:])]
    return SimpleNamespace(prompt_token_ids=ids, outputs=completions, prompt_logprobs=echo)


class Parameters(SimpleNamespace):
    seed = None


def package(engine: type[Engine]) -> ModuleType:
    """Return the module ``vllm`` with that engine."""
    module: Any = ModuleType("vllm")
    module.AsyncLLMEngine = engine
    module.AsyncEngineArgs = SimpleNamespace
    module.SamplingParams = Parameters
    module.sampling_params = SimpleNamespace(
        RequestOutputKind=SimpleNamespace(FINAL_ONLY="final only")
    )
    result: ModuleType = module
    return result
