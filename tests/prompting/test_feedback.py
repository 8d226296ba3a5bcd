"""The message after a failed program: its history, printed text, and what it leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.prompting.mistakes import HOW_MANY, feedback_after, fenced
from tests.strategies.bench import Bench, picture
from viper.errors import ToolError
from viper.prompting.feedback import FailedProgram, feedback_text
from viper.schema import Failure, ToolCall

COUNT = fenced("return len(image_patch.find('cube'))")
FIRST = FailedProgram("return egg", Failure("runtime", "no egg", 2, "return egg"))
PROSE = FailedProgram("", Failure("no_program", "there was only prose"), reply="Two cubes.")


def feedback_on(program: str) -> str:
    return str(feedback_after([fenced(program), COUNT])[1][-1].text)


def test_all_failures_so_far_are_shown_the_oldest_first() -> None:
    last = FailedProgram("return ring", Failure("runtime", "no ring"), earlier=(FIRST, PROSE))
    text = feedback_text(last, ())
    assert text.index("No ring") < text.index("return egg") < text.index("Two cubes.")
    assert "1. It failed in line 2" in text and "2. There was no program to run" in text


def test_a_long_earlier_program_is_cut() -> None:
    program = "\n".join(f"step_{number}()" for number in range(60))
    last = FailedProgram("x", FIRST.failure, earlier=(FailedProgram(program, FIRST.failure),))
    text = feedback_text(last, ())
    assert "step_5()" in text and "step_30()" not in text


def test_a_repetition_is_named() -> None:
    text = feedback_text(FailedProgram("x", FIRST.failure, repeated=True), ())
    assert "You wrote the same program again" in text
    assert "same program" not in feedback_text(FIRST, ())


def test_profiles_of_papers_ask_to_correct_the_program_and_others_for_another_one() -> None:
    replies, query = [fenced("return egg"), COUNT], HOW_MANY
    for whole, says, says_not in (
        ("whole", "Correct your program", "Write another program"),
        ("short", "Write another program", "Correct your program"),
    ):
        text = str(feedback_after(replies, query, api_text=whole)[1][-1].text)
        assert says in text and says_not not in text
    assert "Write another program" in feedback_text(PROSE, (), corrects=True)  # none to correct


def test_printed_text_is_shown_from_its_end() -> None:
    printed = "".join(f"line {number}\n" for number in range(1_000))
    text = feedback_text(FailedProgram("x", FIRST.failure, stdout=printed), ())
    assert "line 999" in text and "line 1\n" not in text and len(text) < 2_000


def test_after_prose_the_history_shows_the_words_of_the_model() -> None:
    words = "I see two cubes in this picture, and one of them is red."
    _, prompt = feedback_after([words, COUNT])
    assert prompt[2].role == "assistant" and prompt[2].text == words


def test_the_history_shows_words_around_an_empty_block_and_no_quote_of_them_has_a_fence() -> None:
    words = "I see two cubes.\n```\n```"
    _, prompt = feedback_after([words, COUNT])
    assert prompt[2].text == words
    assert "I see two cubes." in prompt[3].text and "```" not in prompt[3].text


def test_only_a_failed_import_lists_the_modules_and_only_once() -> None:
    assert feedback_on("n = 1\nimport os\nreturn n").count("bisect") == 1
    for program in ("return eval('1 + 1')", "return input()", "async def count():\n    pass"):
        text = feedback_on(program)
        assert "bisect" not in text and "abs, all" not in text and "can be called" not in text
        assert "id you mean" not in text


def test_the_signature_names_only_the_text_that_does_not_fit() -> None:
    text = feedback_on("return round(distance(image_patch.find('cube')[0], 'ring'))")
    assert "no text: `'ring'`." in text and "`'cube'`" not in text


def test_an_attribute_of_a_method_that_was_not_called_is_no_value_of_a_patch() -> None:
    text = feedback_on("return image_patch.simple_query.lower()")
    assert "`simple_query` is a method" in text and "`lower` is a value" not in text


def test_a_list_that_a_call_filled_is_not_called_empty() -> None:
    assert "found nothing" not in feedback_on(
        "eggs = image_patch.find('egg')\nreturn image_patch.find('cube')[9]"
    )


def test_advice_for_operators_reaches_them_once_and_never_the_writer() -> None:
    class Confused:
        model_id = "confused"

        def find(self, *_: Any, **__: Any) -> Any:
            raise ToolError("the boxes cannot be read", advice="change the option y_first")

        encode = detect = find

    for program in (
        "return len(image_patch.find('cube'))",
        "try:\n    image_patch.find('cube')\n"
        "except Exception as e:\n    print(e)\nreturn 'unknown'",
    ):
        replies = [fenced(program), fenced("return 0 + len(image_patch.find('cube'))")]
        with Bench(replies, prompt_style="chat", feedback=True, trials=2) as bench:
            bench.detector = Confused()  # type: ignore[assignment]
            result = bench.reasoner.run(picture(), HOW_MANY)
        text = bench.llm.calls[-1].messages[-1].text
        assert text.count("the boxes cannot be read") <= 2 and "y_first" not in text
        assert "the boxes cannot be read" in text.split("The calls it made")[0]
        failure = result.trace.trials[1].failure
        assert failure is not None and failure.advice == "change the option y_first"
        assert failure.explained == "the boxes cannot be read; change the option y_first"


def test_a_tool_s_advice_is_part_of_what_people_read() -> None:
    error = ToolError("the boxes cannot be read", advice="change the option y_first")
    assert str(error) == "the boxes cannot be read; change the option y_first"
    assert error.problem == "the boxes cannot be read"


@pytest.mark.parametrize(
    "program",
    [
        f"v = None\ns = {'1+' * 1_100}1\nreturn v.left",
        "\n".join(f"a{n} = a{n - 1}" for n in range(1, 3_000)),
        "x" * 100_000,
    ],
    ids=["deep", "long", "one line"],
)
def test_hostile_programs_get_bounded_feedback(program: str) -> None:
    failure = Failure(
        "runtime", "no", line=1, source_line=program, exception="AttributeError", name="left",
        owner="NoneType",
    )  # fmt: skip
    call = ToolCall(0, "find", ("x" * 50_000,) * 500, {}, [], 0.0, error="y" * 50_000)
    earlier = [FailedProgram(program, failure)]
    failed = FailedProgram(program, failure, calls=[call], earlier=earlier)
    assert len(feedback_text(failed, [])) < 8_000
