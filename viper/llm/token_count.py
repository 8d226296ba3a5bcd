"""Counts tokens for a language model whose own tokenizer is out of reach."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from viper.errors import UsageError
from viper.llm.prompt_tokens import PromptTokens

CHARACTERS_PER_TOKEN = 4
"""Rule of thumb for English and code with vocabularies of 30,000 tokens and more."""


class TokenCounter:
    """Counts exactly with a tokenizer, else estimates from the number of characters.

    Args:
        folder: written by ``save_pretrained``, or None for estimates.

    Attributes:
        exact: whether a tokenizer does it.

    Raises:
        UsageError: no tokenizer there.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.exact = folder is not None
        self._tokenizer: Any = None if folder is None else _load(folder)

    def count(self, text: str) -> int:
        """The tokens of a text, special ones left out; an estimate unless ``exact``."""
        if self._tokenizer is None:
            return math.ceil(len(text) / CHARACTERS_PER_TOKEN)
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def count_prompt(self, prompt: str, *, chat: bool) -> int:
        """The tokens of a prompt with those that the model's format adds where they are known."""
        if self._tokenizer is None:
            return self.count(prompt)
        prompts = PromptTokens(self._tokenizer, "auto" if chat else "plain")
        return len(prompts.encode(prompts.wrapped(prompt)))


def _load(folder: str | Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"tokenizer: no tokenizer in the folder {folder} "
            f"({str(error).splitlines()[0]}); leave the option out to estimate"
        ) from error
