r"""Replies as models write them, each read as a person reads it.

Forms are those of chat templates, tool-call formats and habits of published models; the words are
ours. ``SHAPES`` is data: a name, the use, the reply, and what a person reads in it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viper.models.llm.replies import final_answer, without_reasoning
from viper.models.vision.vqa_chat import tidy
from viper.prompting.exploring import Action, read_action
from viper.prompting.plans import read_plan
from viper.prompting.query_lines import read_queries
from viper.prompting.replies import in_fences, read_program
from viper.prompting.seeking import (
    Decision,
    ResultVerdict,
    Split,
    read_decision,
    read_short_answer,
    read_split,
    read_verdict,
)
from viper.prompting.select import parse_choice
from viper.schema import Failure
from viper.tuning.language_reflector import parse_critique


def returning(value: str) -> str:
    return f"def execute_command(image):\n    return {value}"


FINAL = returning("'final'")
DRAFT = returning("'draft'")
AGAIN = "def count(patches):\n    return len(patches)"
USES_IT = "def execute_command(image):\n    return count(ImagePatch(image).find('cup'))"
WITH_HELPER = f"{AGAIN}\n\n\n{USES_IT}"
ESCAPED = FINAL.replace("\n", "\\n")
OPTIONS = ["a red cube", "a blue ball", "nothing"]
ACTIONS = ["detect", "vqa", "text_search"]
STEPS = "1. Find the cups.\n2. Count them."
REFUSAL = "I'm sorry, but I can't help with identifying people."


def fence(code: str, language: str = "python") -> str:
    return f"```{language}\n{code}\n```"


class Shape(NamedTuple):
    name: str
    use: str
    reply: str
    reading: Any


def named(use: str, **shapes: tuple[str, Any]) -> list[Shape]:
    return [Shape(name, use, *shape) for name, shape in shapes.items()]


SHAPES = [
    *named(
        "program",
        think_holds_a_draft=(f"<think>\n{fence(DRAFT)}\n</think>\n{fence(FINAL)}", FINAL),
        think_with_bare_draft=(f"<think>{DRAFT}\n</think>\n\n{FINAL}", FINAL),
        thinking_tag=(f"<thinking>try\n{fence(DRAFT)}</thinking>{fence(FINAL)}", FINAL),
        lone_closing_tag=(f"So I write\n{fence(DRAFT)}\n</think>\n\n{fence(FINAL)}", FINAL),
        inline_fence_before_lone_closing_tag=(
            f"I start with ```python\n{DRAFT}\n```\nand so on.\n</think>\n{fence(FINAL)}",
            FINAL,
        ),
        harmony_channels=(
            f"<|channel|>analysis<|message|>{fence(DRAFT)}<|end|><|start|>assistant"
            f"<|channel|>final<|message|>{fence(FINAL)}<|return|>",
            FINAL,
        ),
        mistral_think=(f"[THINK]{fence(DRAFT)}[/THINK]{fence(FINAL)}", FINAL),
        kimi_think=(f"◁think▷{fence(DRAFT)}◁/think▷\n{fence(FINAL)}", FINAL),
        seed_think=(f"<seed:think>{fence(DRAFT)}</seed:think>{fence(FINAL)}", FINAL),
        two_thoughts=(
            f"<think>a</think>\n<think>{fence(DRAFT)}</think>\n{fence(FINAL)}",
            FINAL,
        ),
        corrected_below=(
            f"{fence(DRAFT)}\nWait, the cups may be empty. Corrected:\n{fence(FINAL)}",
            FINAL,
        ),
        corrected_and_cut=(f"{fence(FINAL)}\nOr maybe\n```python\ndef execute_com", FINAL),
        helper_in_its_own_fence=(
            f"First a helper:\n{fence(AGAIN)}\nThen:\n{fence(USES_IT)}",
            WITH_HELPER,
        ),
        helper_after_the_entry=(f"{fence(USES_IT)}\nwith\n{fence(AGAIN)}", WITH_HELPER),
        helper_only_in_the_draft=(
            f"{fence(WITH_HELPER.replace('cup', 'mug'))}\nBetter:\n{fence(USES_IT)}",
            WITH_HELPER,
        ),
        other_fence_unused=(f"{fence('cups = 3')}\n{fence(FINAL)}", FINAL),
        json_code=(f'{{"code": "{ESCAPED}"}}', FINAL),
        json_code_in_fence=(f'Here:\n```json\n{{"code": "{ESCAPED}"}}\n```\nDone.', FINAL),
        json_with_raw_line_ends=(f'{{"thought": "t", "code": "{FINAL}"}}', FINAL),
        tool_call=(
            f'<tool_call>\n{{"name": "python", "arguments": {{"code": "{ESCAPED}"}}}}'
            "\n</tool_call>",
            FINAL,
        ),
        function_call_with_text_arguments=(
            '{"type": "function", "function": {"name": "python", "arguments": '
            '"{\\"code\\": \\"def execute_command(image):\\\\n    return \'final\'\\"}"}}',
            FINAL,
        ),
        list_of_tool_calls=(f'[{{"name": "run", "parameters": {{"code": "{ESCAPED}"}}}}]', FINAL),
        qwen_coder_call=(
            f"<tool_call>\n<function=python>\n<parameter=code>\n{FINAL}\n</parameter>\n"
            "</function>\n</tool_call>",
            FINAL,
        ),
        mistral_calls=(
            f'[TOOL_CALLS][{{"name": "python", "arguments": {{"code": "{ESCAPED}"}}}}]',
            FINAL,
        ),
        llama_tag=(f"<|python_tag|>{FINAL}", FINAL),
        imports_in_their_own_fence=(
            f"{fence('import math')}\n{fence(returning('math.pi'))}",
            f"import math\n\n\n{returning('math.pi')}",
        ),
        usage_below=(f"{fence(FINAL)}\nTo run it:\n{fence('execute_command(image)')}", FINAL),
        tool_code_fence=(fence(FINAL, "tool_code"), FINAL),
        python_tag=(f"<python>\n{FINAL}\n</python>", FINAL),
        execute_tag=(f"I run it. <execute>\n{FINAL}\n</execute>", FINAL),
        fence_in_a_tag=(f"<execute>\n{fence(FINAL)}\n</execute>", FINAL),
        inline_fence=(f"Sure: ```python\n{FINAL}\n```", FINAL),
        json_in_a_program=(
            fence('def execute_command(image):\n    return {\n"code": "x"}'),
            'def execute_command(image):\n    return {\n"code": "x"}',
        ),
        polite_before_the_program=(f"I'm sorry for the delay.\n{fence(FINAL)}", FINAL),
        continues_the_prompt=(
            "image):\n    return 1\n\n\n# query: x\n" + DRAFT,
            "def execute_command(image):\n    return 1",
        ),
        broken=(fence(f"{FINAL}[("), f"{FINAL}[("),
        script=("answer = 3", "answer = 3"),
        steps=("BOX0=LOC(image=IMAGE,object='cat')", "BOX0=LOC(image=IMAGE,object='cat')"),
        refusal=(REFUSAL, "refusal"),
        refusal_in_a_fence=(fence("I cannot assist with that request.", ""), "refusal"),
        refusal_after_reasoning=(f"<think>{fence(DRAFT)}</think>\n{REFUSAL}", "refusal"),
        empty=("", "no_program"),
        prose=("The picture shows three red cups on a table.", "no_program"),
        one_word=("UNANSWERED", "no_program"),
        only_reasoning=(f"<think>\nI would write {fence(DRAFT)}", "no_program"),
    ),
    *named(
        "cut program",
        in_the_reasoning=("<think>\nFirst I look for", "truncated"),
        nothing_at_all=("", "truncated"),
        in_a_call=("```python\ndef execute_command(image):\n    x = f(", "truncated"),
        in_a_bare_body=("def execute_command(image):\n    x = 1\n    y = f(", "truncated"),
        after_a_statement=("```python\ndef execute_command(image):\n    x = 1\n", "truncated"),
        in_json=('{"code": "def execute_command(image):\\n    ret', "truncated"),
        in_the_prose_below=(f"{fence(FINAL)}\nThis program ret", FINAL),
        after_the_return=(f"```python\n{FINAL}", FINAL),
        bare_then_prose=(f"{FINAL}\n\nThis program ret", FINAL),
    ),
    *named(
        "action",
        code_tag=("<code>\nx = 1\n</code>", Action("code", "x = 1")),
        code_beside_a_thought=(
            "<thought>I look first.</thought>\n<code>x = 1</code>",
            Action("code", "x = 1", "I look first."),
        ),
        code_below_prose=(
            f"I look first.\n{fence('x = 1')}",
            Action("code", "x = 1", "I look first."),
        ),
        code_in_think=(
            "<think>I could <code>bad</code></think><code>x=1</code>",
            Action("code", "x=1"),
        ),
        closing_tag_in_a_string=(
            "<code>print('</code>')\nx = 1</code>",
            Action("code", "print('</code>')\nx = 1"),
        ),
        json_tool_call=(
            '{"name":"python","arguments":{"code":"x = 1"}}',
            Action("code", "x = 1"),
        ),
        tool_call_tag=(
            '<tool_call>{"name": "python", "arguments": {"code": "x = 1"}}</tool_call>',
            Action("code", "x = 1"),
        ),
        json_thought_and_code=(
            '{"thought": "I look.", "code": "x = 1"}',
            Action("code", "x = 1", "I look."),
        ),
        tool_code=(fence("x = 1", "tool_code"), Action("code", "x = 1")),
        python_tag=("<python>x = 1</python>", Action("code", "x = 1")),
        execute_tag=("<execute>\nx = 1\n</execute>", Action("code", "x = 1")),
        first_of_two=(
            "<code>x = 1</code>\n<result>1</result>\n<code>y = 2</code>",
            Action("code", "x = 1", ignored=True),
        ),
        thought_that_quotes_code=(
            "<thought>calling <code>find</code> again is no use</thought>",
            Action("thought", "calling <code>find</code> again is no use"),
        ),
        thought_then_done=(
            "<thought>That is it.</thought><done></done>",
            Action("done", "", "That is it."),
        ),
        answer_in_a_sentence=("The answer is 3.", Action("done", "3")),
        answer_to_the_question=("The answer to the question is 3.", Action("done", "3")),
        bare_code=("final_answer = 3", Action("code", "final_answer = 3")),
        answer_in_bold=("I counted them.\n\n**Final answer:** 3", Action("done", "3")),
        answer_in_a_box=(r"So there are $\boxed{3}$ of them.", Action("done", "3")),
        answer_in_json=('{"action": "final_answer", "answer": 3}', Action("done", "3")),
        done_in_a_word=("Done.", Action("done")),
        done_in_json=('```json\n{"action": "done"}\n```', Action("done")),
        prose=("I will look at the cups next.", None),
        not_yet=("The answer is not clear yet.", None),
    ),
    *named(
        "plan",
        bold_word=("1. **Find** the cups.\n2. Count __them__.",
                   "1. **Find** the cups.\n2. Count __them__."),
        bold_lines=("**1. Find the cups.**\n**2. Count them.**", STEPS),
        bold_numbers=("**Step 1:** Find the cups.\n**Step 2:** Count them.", STEPS),
        thinking=(f"<thinking>1. no\n2. nothing</thinking>{STEPS}", STEPS),
        json_list=('{"plan": ["Find the cups.", "Count them."]}', STEPS),
        json_objects=(
            '```json\n[{"step": 1, "action": "Find the cups."}, '
            '{"step": 2, "action": "Count them."}]\n```',
            STEPS,
        ),
        table=(
            "| Step | What | Tool |\n|---|---|---|\n"
            "| 1 | Find the cups. | find |\n| 2 | Count them. | len |",
            STEPS,
        ),
        polite=("Sure! Here is how:\nFind the cups.\nCount them.", STEPS),
        brackets_in_steps=('1. Find ["cup", "mug"] first.', '1. Find ["cup", "mug"] first.'),
        refusal=(REFUSAL, ""),
        prose=("The picture shows three cups.\nThey are red.", ""),
    ),
    *named(
        "choice",
        after_think=("<think>A or B? A</think>\nB", 1),
        last_line_says_it=("The ball moves first, then the cube.\nAnswer: B", 1),
        one_line_each=("A. a red cube: no\nB. a blue ball: yes\nAnswer: B", 1),
        boxed=(r"It rolls. $\boxed{B}$", 1),
        boxed_text=(r"\boxed{\text{nothing}}", 2),
        json=('{"answer": "B"}', 1),
        letter_at_the_end=("I compare both.\n\nB", 1),
        letter_chosen=("I choose B.", 1),
        letter_after_a_comma=("From what is known, B", 1),
        first_line_decides=("B\nbecause A is red", 1),
        reason_names_another=("It could be a red cube.\n**Answer: C**", 2),
        cut_in_the_reasoning=("<think>\nmaybe B", None),
    ),
    *named(
        "short",
        think=("<think>hm</think>\nParis", "Paris"),
        empty_line_first=("\n\nParis\n", "Paris"),
        sentence=("Let me see.\nThe answer is Paris.", "Paris"),
        json=('{"answer": "Paris"}', "Paris"),
    ),
    *named(
        "split",
        json=('{"visual": "which lamp?", "knowledge": "who made #?"}',
              Split("which lamp?", "who made #?")),
        think=("<think>visual: no</think>visual: which lamp?\nknowledge: #",
               Split("which lamp?", "#")),
    ),
    *named(
        "decision",
        json=('{"action": "text_search", "query": "foo"}', Decision("text_search", "foo")),
        json_call=('{"name": "vqa", "arguments": {"question": "what?"}}', Decision("vqa", "what?")),
        dash=("vqa - what?", Decision("vqa", "what?")),
        arrow=("Next: vqa -> what?", Decision("vqa", "what?")),
        spaced_name=("Next: text search: foo", Decision("text_search", "foo")),
        think=("<think>Next: detect</think>\nNext: vqa: what?", Decision("vqa", "what?")),
    ),
    *named(
        "verdict",
        json=('{"verdict": "answer", "extracted": "1893", "reason": "it says so"}',
              ResultVerdict("answer", "1893", "it says so")),
        json_fence=('```json\n{"verdict": "informative", "extracted": "by Tarnix"}\n```',
                    ResultVerdict("informative", "by Tarnix")),
        think=("<think>verdict: answer</think>verdict: uninformative",
               ResultVerdict("uninformative")),
    ),
    *named(
        "vqa",
        think=("<think>\nGot it, it is red.\n</think>\n\nBlue.", "Blue"),
        cut_in_the_reasoning=("<think>\nGot it…", ""),
        bold_answer=("It has three.\n**Answer:** Yes.", "yes"),
        plain=("red", "red"),
    ),
    *named(
        "critique",
        think=("<think>location: plan</think>location: program\nreason: wrong sort", "program"),
        json=('<think>{"location": "plan"}</think>{"location": "program"}', "program"),
    ),
    *named(
        "queries",
        thinking=("<thinking>the sheet says cubes</thinking>the red cube", ["the red cube"]),
    ),
]  # fmt: skip

READERS: dict[str, Any] = {
    "program": read_program,
    "cut program": lambda reply: read_program(reply, "length", 64),
    "action": read_action,
    "plan": read_plan,
    "choice": lambda reply: parse_choice(reply, OPTIONS),
    "short": lambda reply: read_short_answer(reply, "chat"),
    "split": lambda reply: read_split(reply, "chat"),
    "decision": lambda reply: read_decision(reply, ACTIONS, "chat"),
    "verdict": lambda reply: read_verdict(reply, "chat"),
    "vqa": tidy,
    "critique": lambda reply: parse_critique(reply).location,
    "queries": lambda reply: [query.text for query in read_queries(reply, "ground")],
}


@pytest.mark.parametrize("shape", [pytest.param(s, id=f"{s.use}-{s.name}") for s in SHAPES])
def test_a_reply_is_read_as_a_person_reads_it(shape: Shape) -> None:
    reading = READERS[shape.use](shape.reply)
    assert (reading.kind if isinstance(reading, Failure) else reading) == shape.reading


def test_there_are_many_shapes_and_each_has_its_own_name() -> None:
    names = [(shape.use, shape.name) for shape in SHAPES]
    assert len(names) == len(set(names)) >= 60


def test_a_failure_says_what_happened_and_what_to_do() -> None:
    refused, cut, empty = (
        read_program(REFUSAL),
        read_program("```python\ndef execute_command(", "length", 512),
        read_program("Three cups."),
    )
    assert isinstance(refused, Failure) and "refused" in refused.message
    assert "I'm sorry, but I can't help" in refused.message and "another model" in (
        refused.advice or ""
    )
    assert isinstance(cut, Failure) and "cut off after 512 tokens" in cut.message
    assert "write a shorter program" in cut.message and cut.advice == "raise max_tokens"
    assert "raise max_tokens" in cut.explained and "max_tokens" not in cut.message
    assert isinstance(empty, Failure) and "'Three cups.'" in empty.message
    assert "defines execute_command()" in empty.message


def test_a_server_that_reports_a_refusal_is_believed() -> None:
    refused = read_program("That is against the policy.", "refusal")
    assert isinstance(refused, Failure) and refused.kind == "refusal"
    assert "against the policy" in refused.message


@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        ("red", "red"),
        ("<think>a</think>red", "red"),
        ("a</think>red", "red"),
        ("<THINK>a</THINK>red", "red"),
        ("<think>a <think>b</think> c</think>red", "red"),
        ("red <think> is a tag", "red <think> is a tag"),
        ("red\n<think>and", "red"),
        ("<|channel|>analysis<|message|>a", ""),
        ("<|channel>thought\na<channel|>red", "red"),
        ("<thought>kept</thought>", "<thought>kept</thought>"),
    ],
)
def test_reasoning_is_removed(reply: str, rest: str) -> None:
    assert without_reasoning(reply).strip() == rest


def test_a_small_model_is_read_without_words() -> None:
    for reply in ("The answer is 3", "Done.", "# answer: red"):
        assert read_action(reply, in_words=False) is None
    action = read_action("I look.\n<code>\nx = 1", in_words=False)
    assert action == Action("code", "x = 1")


pieces = st.sampled_from(
    ["```", "```python", "~~~", "\n", "<think>", "</think>", "<code>", "</code>", "<thought>"]
    + ['{"code": "', '"}', "def execute_command(", "image):", "    return 1", "<done>", "[", "{"]
    + ["<|channel|>final<|message|>", "\\boxed{", "}", "The answer is", "| 1 |", "1. ", "é", "B"]
)


@settings(max_examples=80, deadline=None)
@given(st.lists(pieces, max_size=25).map("".join))
def test_never_raises(text: str) -> None:
    for use, read in READERS.items():
        if use != "critique":
            read(text)
    assert isinstance(in_fences(text), str) and isinstance(final_answer(text), str)
