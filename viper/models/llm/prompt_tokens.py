"""Tokens of prompts and texts, their counts, and scores of texts from echoed prompts.

For a model in this process, :class:`ChatTemplate` renders a conversation and :class:`PromptTokens`
turns it into tokens that leave room for a completion. For a remote model, :class:`TokenCounter`
counts or estimates, and :func:`tail_scores` reads the likelihoods that a server echoes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from viper.errors import PromptTooLongError, UsageError
from viper.models.libraries import transformers
from viper.models.llm.messages import (
    Conversation,
    Picture,
    Prompt,
    as_text,
    messages_of,
    pictures_of,
    without_roles,
    without_system,
)
from viper.models.llm.protocol import check_no_pictures
from viper.models.llm.replies import opened_reasoning

Template = Literal["plain", "chat", "auto"]

# Rule of thumb for English and code with vocabularies of 30,000 tokens and more.
CHARACTERS_PER_TOKEN = 4

# Rule of thumb for pictures, as vendors of models publish it; models scale down the larger ones.
PIXELS_PER_TOKEN, MAX_PICTURE_TOKENS = 750, 1_500


class ChatTemplate:
    """Renders conversations by the chat template of a tokenizer or a processor.

    Args:
        renderer: has ``apply_chat_template``.
        tokenizer: its special tokens are removed from texts, so no text can forge a turn.
        kwargs: further arguments of the template, such as ``{enable_thinking = false}``.
        takes_parts: True for processors, whose templates take messages in parts.
    """

    def __init__(
        self, renderer: Any, tokenizer: Any, kwargs: Mapping[str, Any] | None, *, takes_parts: bool
    ) -> None:
        self._renderer, self._kwargs, self._takes_parts = renderer, dict(kwargs or {}), takes_parts
        added = tokenizer.added_tokens_decoder.values()
        self._marks = [token.content for token in added if token.special and token.content]

    @cached_property
    def opened(self) -> str:
        """Return the mark of reasoning that the template opens for every reply, or "".

        A backend puts it before the reply: one that was cut within would read like an answer.
        """
        return opened_reasoning(self.render("?"))

    def render(self, prompt: Prompt) -> str:
        """Return the text that the model reads, up to the beginning of its reply.

        Raises:
            UsageError: the template rejects the conversation.
        """
        from jinja2 import TemplateError

        messages = messages_of(prompt)
        try:
            return self._apply(messages)
        except TemplateError as error:
            # Some templates have no system turn.
            other = without_system(messages)
            if other == messages:
                raise UsageError(f"the chat template rejects the messages: {error}") from None
            return self._apply(other)

    def _apply(self, messages: Conversation) -> str:
        turns = []
        for message in messages:
            content: Any = [
                {"type": "image"}
                if isinstance(part, Picture)
                else {"type": "text", "text": self._clean(part)}
                for part in message.parts
            ]
            if not self._takes_parts:
                content = "\n\n".join(self._clean(str(part)) for part in message.parts)
            turns.append({"role": message.role, "content": content})
        text = self._renderer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True, **self._kwargs
        )
        return str(text)

    def _clean(self, text: str) -> str:
        for mark in self._marks:
            text = text.replace(mark, " ")
        return text


class PromptTokens:
    """Wraps prompts as a model expects them and turns text into tokens.

    Args:
        tokenizer: of the transformers library.
        template: ``chat`` wraps a prompt as messages, ``plain`` does not, ``auto`` does so when the
            tokenizer has a chat template.
        kwargs: further arguments of the chat template.
        processor: of a model that takes pictures. If it has a chat template, prompts are wrapped by
            that one, unless ``template`` is ``plain``.

    Attributes:
        take_pictures: True if prompts may hold pictures.
    """

    def __init__(
        self,
        tokenizer: Any,
        template: Template = "auto",
        kwargs: Mapping[str, Any] | None = None,
        *,
        processor: Any = None,
    ) -> None:
        self._tokenizer = tokenizer
        sees = template != "plain" and bool(getattr(processor, "chat_template", None))
        renderer = processor if sees else tokenizer
        self.take_pictures = sees
        self._template: ChatTemplate | None = None
        if template == "chat" or (template == "auto" and renderer.chat_template):
            self._template = ChatTemplate(renderer, tokenizer, kwargs, takes_parts=sees)

    @property
    def opened(self) -> str:
        """Return the mark of reasoning before every reply; see :attr:`ChatTemplate.opened`."""
        return self._template.opened if self._template is not None else ""

    def wrapped(self, prompt: Prompt) -> str:
        """Return the text that the model reads for a prompt."""
        if self._template is not None:
            return self._template.render(prompt)
        return without_roles(prompt)

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a wrapped text, with those that mark its beginning and end."""
        # A chat template writes its special tokens itself.
        # A file of a tokenizer may ask for truncation, which would cut the end of the query.
        special = self._template is None
        return list(self._tokenizer.encode(text, add_special_tokens=special, truncation=False))

    def read(self, prompt: Prompt, model_id: str, max_context: int) -> list[int]:
        """Return the tokens of a prompt, at least one and fewer than ``max_context``.

        A picture is one token here, whose place the model fills with more.

        Args:
            model_id: named in the error.

        Raises:
            UsageError: the prompt is empty, or holds pictures that the model does not take.
            PromptTooLongError: the prompt leaves no room for a completion.
        """
        if not self.take_pictures:
            check_no_pictures(prompt, model_id)
        ids = self.encode(self.wrapped(prompt))
        if not ids:
            raise UsageError("the prompt is empty; give the model at least one token")
        if len(ids) >= max_context:
            raise PromptTooLongError(
                f"the prompt takes {len(ids)} tokens and {model_id} holds {max_context}; "
                "show fewer examples or a shorter query"
            )
        return ids

    def count(self, text: str) -> int:
        """Return the number of tokens of the text, without special tokens."""
        return len(self._tokenizer.encode(text, add_special_tokens=False, truncation=False))


class TokenCounter:
    """Counts tokens for a remote model: exactly with a tokenizer, else from the characters.

    Args:
        folder: written by ``save_pretrained``, or None for estimates.

    Attributes:
        exact: True if a tokenizer counts.

    Raises:
        UsageError: the folder holds no tokenizer.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.exact = folder is not None
        self._tokenizer: Any = None
        if folder is not None:
            try:
                self._tokenizer = transformers.AutoTokenizer.from_pretrained(
                    folder, local_files_only=True
                )
            except (OSError, ValueError) as error:
                raise UsageError(
                    f"tokenizer: no tokenizer in the folder {folder} "
                    f"({str(error).splitlines()[0]}); leave the option out to estimate"
                ) from error

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, without special ones; an estimate unless
        ``exact``.
        """
        if self._tokenizer is None:
            return math.ceil(len(text) / CHARACTERS_PER_TOKEN)
        return len(self._tokenizer(text, add_special_tokens=False, truncation=False)["input_ids"])

    def count_prompt(self, prompt: Prompt, *, chat: bool) -> int:
        """Return the number of tokens of a prompt, with those that the model's format adds if
        known; pictures are estimated.
        """
        pictures = picture_tokens(prompt)
        if self._tokenizer is None:
            return self.count(as_text(prompt)) + pictures
        prompts = PromptTokens(self._tokenizer, "auto" if chat else "plain")
        return len(prompts.encode(prompts.wrapped(prompt))) + pictures


def picture_tokens(prompt: Prompt) -> int:
    """Return an estimate of the tokens that the pictures of a prompt take."""
    sizes = (picture.pixels[..., 0].size for picture in pictures_of(prompt))
    return sum(min(MAX_PICTURE_TOKENS, math.ceil(size / PIXELS_PER_TOKEN)) for size in sizes)


@dataclass(frozen=True)
class Echo:
    """Prompt as the server read it: its tokens, and the log-likelihood of each after the others."""

    tokens: tuple[str, ...]
    log_likelihoods: tuple[float, ...]


def tail_scores(echoes: Sequence[Echo], head: int) -> list[float]:
    """Return the mean log-likelihood per token of each text after the common beginning.

    Args:
        echoes: one for each text, not empty.
        head: number of tokens of the beginning by itself; at most these are left out.

    Raises:
        UsageError: a text of a single token, which has nothing before it.
    """
    shared = shared_beginning([echo.tokens for echo in echoes], head)
    tails = [echo.log_likelihoods[shared:] for echo in echoes]
    if not all(tails):
        raise UsageError("a lone token cannot be scored; give a prompt of at least one token")
    return [sum(tail) / len(tail) for tail in tails]


def shared_beginning(texts: Sequence[Sequence[Any]], head: int) -> int:
    """Return the number of tokens, 1 to ``head``, that all texts share and that leave each one."""
    shared = min(head, *(common(texts[0], text) for text in texts))
    return max(1, min(shared, *(len(text) - 1 for text in texts)))


def common(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Return the length of the common beginning."""
    pairs = zip(first, second, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
