"""How a prompt becomes tokens, with and without a chat template, and how likely they are."""

from __future__ import annotations

from typing import Any

import pytest

from viper.errors import UsageError
from viper.models.llm.prompt_tokens import Echo, PromptTokens, tail_scores


class _Letters:
    """A tokenizer whose tokens are letters, with a 1 before the first one."""

    def __init__(self, chat_template: str | None = None) -> None:
        self.chat_template = chat_template

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [1] * add_special_tokens + [ord(letter) for letter in text]

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:
        assert self.chat_template is not None
        return self.chat_template.format(*messages)


CHATTING = _Letters("user: {0[content]} bot:")


@pytest.mark.parametrize("template", ["chat", "auto"])
def test_a_chat_template_wraps_the_prompt_and_writes_the_special_tokens(template: Any) -> None:
    prompts = PromptTokens(CHATTING, template)
    assert prompts.wrapped("hello") == "user: hello bot:"
    assert prompts.read("hello", "tiny", 100) == [ord(each) for each in "user: hello bot:"]


@pytest.mark.parametrize(("tokenizer", "template"), [(CHATTING, "plain"), (_Letters(), "auto")])
def test_plain_prompts_are_read_as_they_are(tokenizer: _Letters, template: Any) -> None:
    prompts = PromptTokens(tokenizer, template)
    assert prompts.wrapped("ab") == "ab"
    assert prompts.read("ab", "tiny", 100) == [1, 97, 98]
    assert prompts.count("ab") == 2


def test_a_prompt_is_neither_empty_nor_as_long_as_the_context() -> None:
    plain = PromptTokens(_Letters())
    assert len(plain.read("abc", "tiny", 5)) == 4
    with pytest.raises(UsageError, match="takes 4 tokens and tiny holds 4"):
        plain.read("abc", "tiny", 4)
    with pytest.raises(UsageError, match="the prompt is empty"):
        PromptTokens(_Letters("{0[content]}")).read("", "tiny", 100)


def _echo(text: str) -> Echo:
    """Every letter is a token, as likely as its place in the text is early."""
    return Echo(tuple(text), tuple(-float(index) for index in range(len(text))))


def test_only_what_follows_the_prompt_counts() -> None:
    assert tail_scores([_echo("abcd"), _echo("abxyz")], head=2) == [-2.5, -3.0]


def test_a_common_beginning_of_the_continuations_counts_too() -> None:
    assert tail_scores([_echo("abcd"), _echo("abce")], head=1) == [-2.0, -2.0]


def test_a_token_that_joins_prompt_and_continuation_is_scored_whole() -> None:
    assert tail_scores([_echo("abcd"), _echo("axcd")], head=2) == [-2.0, -2.0]


def test_an_empty_continuation_is_scored_by_its_last_token() -> None:
    assert tail_scores([_echo("abc"), _echo("abcd")], head=3) == [-2.0, -2.5]


def test_a_lone_token_has_no_likelihood() -> None:
    with pytest.raises(UsageError, match="a prompt of at least one token"):
        tail_scores([_echo("a")], head=0)
