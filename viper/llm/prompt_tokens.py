"""How a prompt becomes the tokens that a model reads, for models that run in this process."""

from __future__ import annotations

from typing import Any, Literal

from viper.errors import PromptTooLongError, UsageError

Template = Literal["plain", "chat", "auto"]


class PromptTokens:
    """Wraps prompts as a model expects them and turns text into tokens.

    Args:
        tokenizer: of the transformers library.
        template: ``chat`` wraps a prompt as a user message, ``plain`` does not, ``auto``
            does so when the tokenizer has a chat template.
    """

    def __init__(self, tokenizer: Any, template: Template = "auto") -> None:
        self._tokenizer = tokenizer
        self._chat = template == "chat" or (template == "auto" and bool(tokenizer.chat_template))

    def wrapped(self, prompt: str) -> str:
        """The text that the model reads for a prompt."""
        if not self._chat:
            return prompt
        message = [{"role": "user", "content": prompt}]
        return str(
            self._tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        )

    def encode(self, text: str) -> list[int]:
        """The tokens of a wrapped text, with those that mark its beginning and end."""
        # A chat template writes its special tokens itself.
        return list(self._tokenizer.encode(text, add_special_tokens=not self._chat))

    def read(self, prompt: str, model_id: str, max_context: int) -> list[int]:
        """The tokens of a prompt, at least one and fewer than ``max_context``.

        Args:
            model_id: named in the error.

        Raises:
            UsageError: the prompt is empty.
            PromptTooLongError: it leaves no room for a completion.
        """
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
        """How many tokens the text takes, special tokens left out."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))
