"""Endpoints that misbehave, as a user meets them: ``viper run`` with one writer that sees nothing.

The profile has no vision roles, so each test also runs on code that has none behind endpoints.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.endpoint.model import KEY, fenced
from tests.endpoint.place import Begin, chat
from tests.models.llm.openai_server import Answer, Received, refusal
from viper.profiles import load_profile

DEF = "def execute_command(image):"
FINAL = f"{DEF}\n    return 'final'"
DRAFT = f"{DEF}\n    return 'draft'"
HELPER = "def word():\n    return 'final'"
IN_JSON = json.dumps({"code": FINAL})
CALL = {"type": "function", "function": {"name": "python", "arguments": IN_JSON}}


SHAPES = {
    "a_draft_in_think": chat(f"<think>\n{fenced(DRAFT)}\n</think>\n{fenced(FINAL)}"),
    "a_correction_below": chat(f"{fenced(DRAFT)}\nWait, corrected:\n{fenced(FINAL)}"),
    "think_without_its_opening": chat(f"I try\n{fenced(DRAFT)}\n</think>\n{fenced(FINAL)}"),
    "an_inline_fence_before_a_lone_end_of_think": chat(
        f"I start with ```python\n{DRAFT}\n```\nand so on.\n</think>\n{fenced(FINAL)}"
    ),
    "a_helper_in_its_own_fence": chat(
        f"{fenced(HELPER)}\nThen:\n{fenced(FINAL.replace(chr(39) + 'final' + chr(39), 'word()'))}"
    ),
    "code_in_json": chat(IN_JSON),
    "a_tool_call": chat(None, "tool_calls", tool_calls=[CALL]),
    "content_in_parts": chat([{"type": "text", "text": fenced(FINAL)}]),
    "thinking_in_parts": chat(
        [{"type": "thinking", "thinking": DRAFT}, {"type": "text", "text": fenced(FINAL)}]
    ),
    "reasoning_beside_the_content": chat(fenced(FINAL), reasoning_content=fenced(DRAFT)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_final_program_is_run_after_one_request(name: str, begin: Begin) -> None:
    place = begin(SHAPES[name])
    record = place.record()
    assert record["answer"] == "final"
    assert len(place.server.received) == 1 == record["usage"]["llm_calls"]


NO_PROGRAMS = {
    "a_refusal_field": (chat(None, refusal="I won't look at faces."), "refusal", "look at faces"),
    "a_refusal_as_text": (chat("I'm sorry, but I can't help."), "refusal", "can't help"),
    "a_content_filter": (chat("", "content_filter"), "refusal", "another model"),
    "an_end_in_the_reasoning": (chat(None, "length"), "truncated", "raise max_tokens"),
    "an_end_in_think": (chat("<think>I could", "length"), "truncated", "cut off after 10 tokens"),
    "an_end_in_the_program": (chat(f"```python\n{DEF}\n    x = f(", "length"), "truncated",
                              "raise max_tokens"),
    "prose": (chat("It is a cube."), "no_program", "It is a cube."),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_PROGRAMS)
def test_a_reply_without_a_program_is_a_failure_in_words_with_a_trace(
    name: str, begin: Begin
) -> None:
    answer, kind, says = NO_PROGRAMS[name]
    place = begin(answer)
    record = place.record()
    failure = record["failure"]
    assert failure["kind"] == kind and says in f"{failure['message']} {failure['advice']}"
    assert record["trials"] and not record["tool_calls"]
    code, out, _ = place.run()
    assert code == 1 and len(out.splitlines()) == 1
    assert out.startswith(f"no answer: {kind}: ") and says in out


def test_a_quota_that_is_used_up_is_one_line_after_one_request(begin: Begin) -> None:
    place = begin(refusal(429, f"You exceeded your quota of {KEY}", code="insufficient_quota"))
    code, out, err = place.run()
    assert code == 1 and out == "" and "the quota is used up" in err.splitlines()[-1]
    assert len(place.server.received) == 1


PICKY = "Unsupported value: 'temperature' does not support 0.0 with this model."


def picky(request: Received) -> Answer:
    """A reasoning model that takes neither of these fields."""
    field = next(
        (name for name in ("temperature", "stop", "seed", "n") if name in request.body), ""
    )
    message = PICKY.replace("temperature", field)
    return refusal(400, message, param=field) if field else chat(fenced(FINAL))


def test_a_field_that_the_model_rejects_is_left_out_from_then_on(begin: Begin) -> None:
    place = begin(picky)
    assert place.record()["answer"] == "final"
    fields = [set(each.body) for each in place.server.received]
    assert "temperature" in fields[0] and len(fields) <= 5
    count = len(fields)
    assert place.record()["answer"] == "final"
    assert len(place.server.received) == count + 1, "the next process begins with what was learned"


def test_the_option_omit_still_counts(begin: Begin) -> None:
    place = begin(picky)
    place.write_profile('omit = ["temperature", "stop", "seed", "n"]')
    assert place.record()["answer"] == "final"


OPTIONS = ("--options", "the ball; the cube; the ring")
CHOOSE = fenced(
    "def execute_command(image, question, possible_answers):\n"
    "    return select_answer({'seen': 'cube'}, question, possible_answers)"
)
LETTERS = [
    "<think>A is a ball.</think>\nB",
    "It has corners.\nAnswer: B",
    r"It is $\boxed{B}$",
    "**B**",
    '{"answer": "B"}',
    "A ball has no corners, so I choose B.",
]


@pytest.mark.parametrize("reply", LETTERS)
def test_a_letter_is_read_and_the_program_is_asked_for_once(reply: str, begin: Begin) -> None:
    place = begin(lambda r: chat(reply if "letter before one" in str(r.body) else CHOOSE))
    record = place.record(*OPTIONS)
    assert record["answer"] == "the cube"
    _, letter = (request.body for request in place.server.received)
    assert letter["max_tokens"] > 24


def test_an_unreadable_letter_is_asked_for_again_and_not_the_program(begin: Begin) -> None:
    replies = iter(["I cannot tell them apart.", "B"])
    place = begin(lambda r: chat(next(replies) if "letter before one" in str(r.body) else CHOOSE))
    record = place.record(*OPTIONS)
    assert record["answer"] == "the cube" and len(record["trials"]) == 1
    assert len(place.server.received) == 3 == record["usage"]["llm_calls"]


ASKED = fenced(f"{DEF}\n    return llm_query('what is round?', long_answer=False)")


def test_an_answer_of_the_text_role_may_begin_with_an_empty_line_or_think(begin: Begin) -> None:
    long_thought = f"<think>{'I wonder. ' * 40}</think>"
    for reply in ("\n\nball", f"{long_thought}\n\nball", "Let me see.\nThe answer is ball."):
        place = begin(lambda r, reply=reply: chat(reply if "# answer:" in str(r.body) else ASKED))
        assert place.record()["answer"] == "ball"
        assert place.server.received[1].body["max_tokens"] > 32
        assert "\n" not in place.server.received[1].body.get("stop", ())


def test_the_requests_of_the_text_role_count_in_usage_and_cost(begin: Begin) -> None:
    place = begin(lambda r: chat("ball" if "# answer:" in str(r.body) else ASKED))
    usage = place.record()["usage"]
    counts = (usage["llm_calls"], usage["prompt_tokens"], usage["completion_tokens"])
    assert counts == (2, 200, 20)
    assert usage["cost_usd"] == pytest.approx(200 * 0.4e-6 + 20 * 1.6e-6)


def test_the_state_folder_may_be_a_text(begin: Begin, tmp_path: Path) -> None:
    begin(chat(fenced(FINAL)))
    profile = load_profile(str(tmp_path / "writer.toml"), state=str(tmp_path / "state"))
    assert profile.components().llm.model_id.startswith("gpt-4.1-mini@")
