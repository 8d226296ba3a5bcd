"""Replies of agents, planners and searchers in the forms of published models, by ``viper run``.

As in ``test_misbehaving``, the profile needs no model behind an endpoint but the writer.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.endpoint.model import fenced
from tests.endpoint.place import Begin, Place, chat
from tests.models.llm.openai_server import Received

STORE = "final_answer = 3"
DONE = "<done></done>"


def explored(begin: Begin, *replies: str) -> tuple[dict[str, Any], Place]:
    """A run of ``explore`` with these replies, the last for ever."""
    left = list(replies)
    place = begin(lambda request: chat(left.pop(0) if len(left) > 1 else left[0]))
    return place.record("--strategy", "explore"), place


def prompts(place: Place) -> list[Any]:
    return [request.body["messages"] for request in place.server.received]


def test_each_turn_begins_with_the_messages_of_the_one_before(begin: Begin) -> None:
    record, place = explored(begin, "<code>n = 1\nn</code>", "<code>n = 2\nn</code>",
                             f"<code>{STORE}</code>", DONE)  # fmt: skip
    assert record["answer"] == 3
    sent = prompts(place)
    for before, after in zip(sent, sent[1:], strict=False):
        assert after[: len(before)] == before and len(after) > len(before)


CODE = {
    "beside_a_thought": f"<thought>I know it.</thought><code>{STORE}</code>",
    "after_think_with_other_code": f"<think>I could <code>bad</code></think><code>{STORE}</code>",
    "in_json": json.dumps({"name": "python", "arguments": {"code": STORE}}),
    "in_a_tool_call": "<tool_call>"
    + json.dumps({"name": "python", "arguments": {"code": STORE}})
    + "</tool_call>",
    "in_a_tool_code_fence": f"```tool_code\n{STORE}\n```",
    "in_a_python_tag": f"<python>{STORE}</python>",
    "in_an_execute_tag": f"<execute>{STORE}</execute>",
    "with_a_closing_tag_in_a_string": f"<code>tag = '</code>'\n{STORE}</code>",
}


@pytest.mark.parametrize("name", CODE)
def test_code_of_an_agent_is_run_at_once(name: str, begin: Begin) -> None:
    record, place = explored(begin, CODE[name], DONE)
    assert record["answer"] == 3 and len(place.server.received) == 2


@pytest.mark.parametrize(
    "reply", ["The answer is 3", "I counted.\n**Final answer:** 3", r"So it is $\boxed{3}$."]
)
def test_an_answer_in_words_ends_an_episode(reply: str, begin: Begin) -> None:
    record, place = explored(begin, "<code>n = 3\nn</code>", reply)
    assert record["answer"] == 3 and len(place.server.received) == 2


def test_done_in_a_word_ends_an_episode(begin: Begin) -> None:
    record, place = explored(begin, f"<code>{STORE}</code>", "Done.")
    assert record["answer"] == 3 and len(place.server.received) == 2


def test_what_an_agent_is_told_after_prose_has_its_tags_whole(begin: Begin) -> None:
    _, place = explored(begin, "I will look at it.", f"<code>{STORE}</code>", DONE)
    told = json.dumps(prompts(place)[1], ensure_ascii=False)
    assert "<code>…</code> with Python to run" in told and "‹code>" not in told


def test_no_stop_string_cuts_reasoning_or_strings(begin: Begin) -> None:
    _, place = explored(begin, f"<code>{STORE}</code>", DONE)
    assert all(request.body["stop"] == ["<result>"] for request in place.server.received)


PROGRAM = fenced("def execute_command(image):\n    return 3")
STEPS = "1. Find the cups.\n2. Count them."
PLANS = {
    "a_bold_word": ("1. **Find** the cups.\n2. Count them.", STEPS.replace("Find", "**Find**")),
    "json": ('{"steps": ["Find the cups.", "Count them."]}', STEPS),
    "a_table": ("| Step | What |\n|---|---|\n| 1 | Find the cups. |\n| 2 | Count them. |", STEPS),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_are_read(name: str, begin: Begin) -> None:
    reply, plan = PLANS[name]
    place = begin(lambda r: chat(reply if "You plan how to answer" in r.words else PROGRAM))
    record = place.record("--strategy", "plan")
    assert record["answer"] == 3 and record["trials"][0]["plan"] == plan


def test_a_refusal_is_no_plan(begin: Begin) -> None:
    place = begin(
        lambda r: chat("I'm sorry, I can't help." if "You plan how" in r.words else PROGRAM)
    )
    record = place.record("--strategy", "plan")
    assert record["answer"] is None and record["failure"]["kind"] == "plan"


QUESTION = "When was Tarnix founded?"
SEEKING = """
[roles]
vqa = { backend = "tests.evaluate.fake_backends:Answerer", model = "answerer" }
text_search = { backend = "tests.endpoint.shelf:Shelf", model = "shelf" }
"""


WHOLE = "visual: when was Tarnix founded?\nknowledge: #"
ANSWER = "verdict: answer\nextracted: 1893"


class Searcher:
    """Replies of a searcher: decisions in turn, the verdict once the date was found.

    Attributes:
        planned: what the planner was sent.
    """

    def __init__(self, *decisions: str, split: str = WHOLE, answer: str = ANSWER) -> None:
        self._decisions, self._split, self._answer = list(decisions), split, answer
        self.planned: list[str] = []

    def __call__(self, request: Received) -> Any:
        if "Split the question below" in request.words:
            return chat(self._split)
        if "You judge" in request.words:
            return chat(self._answer if "founded in 1893" in request.words else "verdict: no")
        if "Actions that are possible now" in request.words:
            self.planned.append(request.words)
            return chat(self._decisions.pop(0) if self._decisions else "Next: vqa: what?")
        return chat("unknown")


def sought(begin: Begin, searcher: Searcher) -> dict[str, Any]:
    place = begin(searcher)
    profile = place.folder / "writer.toml"
    text = profile.read_text().replace('select_by = "choice" } }', 'select_by = "choice" } }' + "\n"
                                       + SEEKING.replace("[roles]\n", ""))  # fmt: skip
    profile.write_text(text)
    given = ["--strategy", "seek", "--graph", "every", "--max-steps", "6"]
    return place.record(*given, query=QUESTION)


SEARCH = "Next: text_search: tarnix"


def test_a_split_in_json(begin: Begin) -> None:
    split = json.dumps({"visual": "when was Tarnix founded?", "knowledge": "#"})
    record = sought(begin, Searcher(SEARCH, split=split))
    assert record["path"][0]["visual"] == "when was Tarnix founded?"
    assert record["path"][0]["knowledge"] == "#" and record["answer"] == "1893"


def test_a_verdict_in_json(begin: Begin) -> None:
    answer = json.dumps({"verdict": "answer", "extracted": "1893"})
    assert sought(begin, Searcher(SEARCH, answer=answer))["answer"] == "1893"


@pytest.mark.parametrize(
    "decision",
    [
        '{"action": "text_search", "query": "tarnix"}',
        "text_search - tarnix",
        "Next: text search: tarnix",
    ],
)
def test_decisions_in_other_forms(decision: str, begin: Begin) -> None:
    record = sought(begin, Searcher(decision))
    step = record["path"][1]
    assert (step["action"], step["words"]) == ("text_search", "tarnix")
    assert record["answer"] == "1893"


def test_a_search_is_worded_again_and_the_same_one_is_refused(begin: Begin) -> None:
    words = ["nix town", "Nix  town", "tarnix"]
    record = sought(begin, Searcher(*(f"Next: text_search: {each}" for each in words)))
    steps = [step for step in record["path"] if step.get("action") == "text_search"]
    assert [step["words"] for step in steps] == words and record["answer"] == "1893"
    assert "made before" in steps[1]["reason"] and not steps[1]["calls"]


def test_the_planner_sees_its_searches_and_the_whole_question(begin: Begin) -> None:
    searcher = Searcher("Next: text_search: nix town", SEARCH)
    sought(begin, searcher)
    assert all(f"The whole question: {QUESTION}" in words for words in searcher.planned)
    assert "text_search: nix town" in searcher.planned[1]


def test_a_decision_that_cannot_be_read_is_asked_for_again(begin: Begin) -> None:
    record = sought(begin, Searcher("Hm, hard to say.", SEARCH))
    assert record["answer"] == "1893" and record["path"][1]["planned"] is True


def test_a_searcher_that_says_nothing_readable_is_a_failure(begin: Begin) -> None:
    place = begin(chat("UNANSWERED"))
    code, out, _ = place.run("--strategy", "seek", "--without", "search")
    assert code == 1 and "neither an action nor a verdict could be read" in out
