"""The budget of a query bounds what its tools ask of language models, too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.strategies.bench import Bench, picture
from viper.models.llm.scripted import ScriptedLLM
from viper.tools.text import LanguageTool

MANY = """def execute_command(image):
    texts = [llm_query(f"what is {number}?") for number in range(80)]
    return texts[-1]
"""


def bench(*replies: str, asked: ScriptedLLM, **settings: Any) -> Bench:
    """A bench whose text tool asks a language model."""
    made = Bench(list(replies), **settings)
    made.reasoner.components.toolbox.models.add(
        "text", lambda: LanguageTool(asked, select_by="choice")
    )
    return made


@pytest.mark.parametrize(
    ("bound", "requests"), [({"max_llm_calls": 3}, 3), ({"max_llm_tokens": 1}, 1), ({}, 81)]
)
def test_eighty_requests_of_a_tool_end_at_the_bound(bound: dict[str, int], requests: int) -> None:
    asked = ScriptedLLM([str(number) for number in range(80)])
    with bench(MANY, asked=asked) as made:
        result = made.reasoner.run(picture(), "what is it?", **bound)
    assert result.trace.usage.llm_calls == requests
    if bound:
        assert result.failure is not None and result.failure.kind == "budget"
        *answered, refused = result.trace.trials[-1].tool_calls
        assert len(answered) == requests - 1 and "used of max_llm" in (refused.error or "")
    else:
        assert result.answer is not None and result.answer.value == "79"


def test_an_agent_ends_at_the_bound_with_what_it_has() -> None:
    code = "<code>\nfinal_answer = 'red'\n</code>"
    many = "<code>\n[llm_query(f'what is {n}?') for n in range(80)]\n</code>"
    asked = ScriptedLLM([str(number) for number in range(80)])
    with bench(code, many, asked=asked, prompt_style="chat") as made:
        result = made.reasoner.run(picture(), "what is it?", strategy="explore", max_llm_calls=4)
    assert result.trace.usage.llm_calls == 4
    assert result.answer is not None and result.answer.value == "red"
