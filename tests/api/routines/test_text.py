"""Words, numbers, and what is settled without asking the language model."""

from __future__ import annotations

import pytest

from tests.api.scripted import ScriptedClient
from viper.api.routines import text


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ("12 apples", 12),
        ("about 1,250.5 m", 1250.5),
        ("-3", -3),
        ("There are Seven.", 7),
        ("none", 0),
        ("2 of five", 2),
        ("$.75", 0.75),
        (4, 4),
        (2.5, 2.5),
    ],
)
def test_numbers(given: str, number: float) -> None:
    value = text.coerce_to_numeric(given)
    assert value == number and type(value) is type(number)


def test_text_without_number() -> None:
    with pytest.raises(ValueError, match="no number in 'many'"):
        text.coerce_to_numeric("many")
    with pytest.raises(TypeError, match="string must be a string, not list"):
        text.coerce_to_numeric([1])


def test_yes_and_no() -> None:
    assert text.bool_to_yesno(True) == text.bool_to_yn(True) == "yes"
    assert text.bool_to_yesno(False) == text.bool_to_yn(False) == "no"
    assert text.bool_to_yesno("no") == "no"


def test_guesses(client: ScriptedClient) -> None:
    client.will("process_guesses", "bread")
    assert text.process_guesses(client, "What?", ["bread", "cake"]) == "bread"
    assert client.calls == [("process_guesses", "What?", ["bread", "cake"])]
    assert text.process_guesses(client, "What?", ["cake", "cake"]) == "cake"
    assert text.process_guesses(client, "What?", []) == ""
    assert len(client.calls) == 1


def test_language_model_and_selection(client: ScriptedClient) -> None:
    client.will("llm_query", "blue", "red")
    client.will("select_answer", "b")
    assert text.llm_query(client, "Which?") == "blue"
    assert text.llm_query(client, "Which?", "it is red", long_answer=False) == "red"
    assert text.select_answer(client, {"seen": 3}, "q?", ["a", "b"]) == "b"
    assert client.calls == [
        ("llm_query", "Which?", None, True),
        ("llm_query", "Which?", "it is red", False),
        ("select_answer", {"seen": 3}, "q?", ["a", "b"]),
    ]
    client.will("select_answer", "x")
    assert text.select_answer(client, "x", "q?", []) == "x"
