import pytest

from viper.errors import UsageError
from viper.models.llm.likelihood import Echo, tail_scores


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
