"""Conversations of the strategies: their turns, the pictures in them, and feedback in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import Bench, picture
from tests.tuning.agent.tiny import CHAT_TEMPLATES, tokenizer
from viper.models.llm.messages import Message, Picture, pictures_of
from viper.models.llm.openai_llm import chat_messages
from viper.models.llm.prompt_tokens import PromptTokens
from viper.models.llm.scripted import RecordedCall, ScriptedLLM
from viper.prompting.feedback import FailedProgram, feedback_text
from viper.run_result import RunResult
from viper.schema import Failure, ToolCall

BROKEN = "```python\ndef execute_command(image):\n    return ImagePatch(image).find('egg')[0]\n```"
LEFTMOST = BROKEN.replace("egg", "cube")
ON_VIDEO = "```\ndef execute_command(video, question, possible_answers):\n    return 3\n```"
PLAN = "1. Find the cubes.\n2. Return the first."


def asked(
    replies: list[str], media: Any = None, query: str = "the cube", **settings: Any
) -> tuple[RunResult, list[RecordedCall]]:
    strategy = settings.pop("strategy", "program")
    parts = {"sees": frozenset({"llm"})} if settings.pop("sees", False) else {}
    bench = Bench(replies, parts=parts, prompt_style="chat", **settings)
    bench.llm.sees_pictures = bool(parts)
    with bench.reasoner:
        shown = picture() if media is None else media
        return bench.reasoner.run(shown, query, strategy=strategy), bench.llm.calls


def test_ten_turns_each_begin_with_the_one_before() -> None:
    replies = [f"<code>n = {number}\nn" for number in range(8)]
    replies += ["<code>final_answer = n", "<done></done>"]
    _, calls = asked(replies, query="how many cubes?", strategy="explore", sees=True)
    prompts = [call.messages for call in calls]
    assert len(prompts) == 10
    for before, after in zip(prompts, prompts[1:], strict=False):
        assert after[: len(before)] == before and len(after) == len(before) + 2
        sent = [chat_messages(prompt, Picture.data_uri) for prompt in (before, after)]
        assert sent[1][: len(before)] == sent[0], "what an endpoint gets"


@pytest.mark.parametrize("name", CHAT_TEMPLATES)
def test_ten_turns_each_begin_with_the_tokens_of_the_one_before(name: str) -> None:
    replies = [f" \n<code>n = {number}\nn" for number in range(8)]
    replies += ["<code>final_answer = n", "<done></done>"]
    _, calls = asked(replies, query="how many cubes?", strategy="explore")
    tokens = PromptTokens(tokenizer(CHAT_TEMPLATES[name]), "chat")
    ids = [tokens.encode(tokens.wrapped(call.messages)) for call in calls]
    assert len(ids) == 10
    for before, after in zip(ids, ids[1:], strict=False):
        assert after[: len(before)] == before and len(after) > len(before)


def test_a_failed_program_and_what_went_wrong_are_turns() -> None:
    result, calls = asked([BROKEN, LEFTMOST], feedback=True, self_tune=False)
    assert result.answer is not None
    first, second = (call.messages for call in calls)
    assert [message.role for message in second] == ["system", "user", "assistant", "user"]
    assert second[: len(first)] == first
    told = second[-1].text
    assert "find(ImagePatch(0, 0, 100, 60), 'egg') -> nothing" in told
    assert "IndexError" in told and "below_threshold" not in told
    assert result.trace.trials[1].prompt is not None
    assert told in result.trace.trials[1].prompt


@pytest.mark.parametrize(
    ("strategy", "replies"),
    [
        ("program", [LEFTMOST]),
        ("plan", [PLAN, LEFTMOST]),
        ("explore", ["<code>final_answer = image_patch.find('cube')[0]", "<done></done>"]),
    ],
)
def test_a_writer_that_sees_gets_the_picture_and_the_trace_names_it(
    strategy: str, replies: list[str]
) -> None:
    result, calls = asked(replies, strategy=strategy, sees=True)
    expected = Picture(picture())
    assert result.answer is not None
    assert all(pictures_of(call.messages) == [expected] for call in calls)
    assert expected.digest[:16] in (result.trace.trials[0].prompt or "")
    assert not pictures_of(asked(replies, strategy=strategy)[1][0].messages)


def test_of_a_video_it_gets_frames_with_their_numbers() -> None:
    clip = np.arange(20, dtype=np.uint8)[:, None, None, None] * np.ones((1, 6, 8, 3), np.uint8)
    _, calls = asked([ON_VIDEO], clip, "how many balls fall?", sees=True)
    frames = [int(shown.pixels[0, 0, 0]) for shown in pictures_of(calls[0].messages)]
    assert frames == [0, 3, 5, 8, 11, 14, 16, 19]
    assert "Frames 0, 3, 5, 8, 11, 14, 16, 19 of the video's 20" in calls[0].prompt


def test_an_open_question_about_a_video_gets_rules_and_names_that_fit() -> None:
    clip = np.zeros((8, 60, 100, 3), np.uint8)
    _, calls = asked([ON_VIDEO], clip, "how many balls fall?")
    text = calls[0].prompt
    assert "`possible_answers` is empty" in text
    assert "def bool_to_yesno" in text and "def coerce_to_numeric" in text


def test_facts_about_the_models_and_the_modules_stand_in_the_prompt() -> None:
    with Bench([LEFTMOST], prompt_style="chat", parts={"facts": "It knows: cube, ring."}) as bench:
        bench.reasoner.run(picture(), "the cube")
        (message, _) = bench.llm.calls[0].messages
    assert isinstance(message, Message) and message.role == "system"
    assert "It knows: cube, ring." in message.text and "itertools" in message.text


def call(**changes: Any) -> ToolCall:
    patch = {"kind": "patch", "fields": ["image0", 0, 0, 9.5, 9]}
    values: dict[str, Any] = {"index": 0, "tool": "find", "args": (patch, "egg"), "kwargs": {}}
    values |= {"result": [], "seconds": 0.1, **changes}
    return ToolCall(**values)


@pytest.mark.parametrize(
    ("failure", "calls", "says"),
    [
        (
            Failure("below_threshold", "no egg", 2, "find('egg')[0]", tool="find", call_index=0),
            [call(rejected_by="detector.threshold", scores=(0.06,))],
            ["`find` found nothing, also", "'egg') -> nothing", "best candidate scored 0.06"],
        ),
        (
            Failure("forbidden", "the module 'os' cannot be imported", 1, "import os"),
            [],
            ["It failed in line 1: `import os`.\nThe module 'os' cannot be imported."],
        ),
        (
            Failure("runtime", "no attribute 'x'", 3, "p.x", exception="AttributeError"),
            [call(result=True, args=("egg",)), call(error="no such tool", args=())],
            ["AttributeError: no attribute 'x'", "find('egg') -> True", "failed: no such tool"],
        ),
        (
            Failure("truncated", "the reply was cut off after 9 tokens"),
            [],
            ["There was no program to run: the reply was cut off after 9 tokens."],
        ),
    ],
)
def test_feedback_says_what_failed_and_what_is_allowed(
    failure: Failure, calls: list[ToolCall], says: list[str]
) -> None:
    text = feedback_text(FailedProgram("x", failure, calls), ())
    assert all(words in text for words in says), text
    assert "below_threshold" not in text and "None" not in text


def test_a_scripted_model_without_eyes_refuses_pictures() -> None:
    with pytest.raises(Exception, match="takes no pictures"):
        ScriptedLLM(["x"]).generate([(Message("user", (Picture(picture()), "?")),)], None)  # type: ignore[arg-type]
