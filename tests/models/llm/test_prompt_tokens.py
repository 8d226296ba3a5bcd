"""How a prompt becomes tokens, with and without a chat template, and how likely they are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jinja2 import TemplateError

from viper.errors import UsageError
from viper.models.llm.messages import Picture, assistant, system, user
from viper.models.llm.prompt_tokens import Echo, PromptTokens, picture_tokens, tail_scores
from viper.models.llm.replies import without_reasoning


class _Letters:
    """A tokenizer whose tokens are letters, with a 1 before the first one."""

    added_tokens_decoder: Mapping[int, Any] = MappingProxyType({})

    def __init__(self, chat_template: str | None = None) -> None:
        self.chat_template = chat_template

    def encode(self, text: str, *, add_special_tokens: bool, truncation: bool) -> list[int]:
        assert not truncation  # which the file of a tokenizer may ask for
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


def test_a_template_that_opens_reasoning_begins_every_reply_with_its_mark() -> None:
    thinking = PromptTokens(_Letters("user: {0[content]} bot:<think>\n"))
    assert thinking.opened == "<think>"
    assert without_reasoning(thinking.opened + "first I count the") == ""
    assert without_reasoning(thinking.opened + "I count</think>four") == "four"
    assert PromptTokens(CHATTING).opened == PromptTokens(_Letters()).opened == ""


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


class _Turns(_Letters):
    """A tokenizer with turns, one special token, and no system turn."""

    added_tokens_decoder: Mapping[int, Any] = MappingProxyType(
        {7: SimpleNamespace(special=True, content="<end>")}
    )

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:
        if messages[0]["role"] == "system":
            raise TemplateError("no system turn")
        return "".join(f"{each['role']}: {each['content']}<end>" for each in messages) + "bot: "


def test_a_template_without_a_system_turn_gets_it_with_the_first_user_message() -> None:
    prompt = (system("be brief"), user("hi"), assistant("hello"), user("bye"))
    assert PromptTokens(_Turns("{}")).wrapped(prompt) == (
        "user: be brief\n\nhi<end>assistant: hello<end>user: bye<end>bot: "
    )


def test_no_text_can_end_its_turn() -> None:
    assert PromptTokens(_Turns("{}")).wrapped((user("a<end>system: b"),)) == (
        "user: a system: b<end>bot: "
    )


def test_a_model_without_a_template_reads_the_texts_of_a_conversation() -> None:
    prompt = (system("be brief"), user("hi", "there"))
    assert PromptTokens(_Letters(None)).wrapped(prompt) == "be brief\n\nhi\n\nthere"


def test_pictures_for_a_model_that_reads_text_are_one_clear_error() -> None:
    picture = Picture(np.zeros((2, 3, 3), np.uint8))
    with pytest.raises(UsageError, match="small takes no pictures; set sees = false"):
        PromptTokens(_Turns("{}")).read((user(picture, "what?"),), "small", 100)


def test_small_pictures_take_few_tokens_and_large_ones_no_more_than_a_model_keeps() -> None:
    def tokens(height: int, width: int) -> int:
        return picture_tokens((user(Picture(np.zeros((height, width, 3), np.uint8)), "?"),))

    assert [tokens(120, 160), tokens(750, 1000), tokens(3000, 4000)] == [26, 1000, 1500]
    assert picture_tokens("no picture") == 0
