"""Programs are found in whatever a language model wraps them in."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viper.prompting.extract import extract_code

PROGRAM = """\
def execute_command(image):
    image_patch = ImagePatch(image)
    cups = image_patch.find("cup")

    # the red one
    for cup in cups:
        if cup.verify_property("cup", "red"):
            return cup
    return cups[0]"""

BODY = PROGRAM.removeprefix("def execute_command(")
INDENTED = "\n".join(f"    {line}" if line else line for line in PROGRAM.splitlines())
TABBED = PROGRAM.replace("    ", "\t")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(PROGRAM, id="bare"),
        pytest.param(f"\n\n  \n{PROGRAM}\n\n", id="blank lines around"),
        pytest.param(PROGRAM.replace("\n", "\r\n"), id="windows line ends"),
        pytest.param(INDENTED, id="indented"),
        pytest.param(TABBED, id="tabs"),
        pytest.param(f"```python\n{PROGRAM}\n```", id="fence"),
        pytest.param(f"```\n\n{PROGRAM}\n```", id="fence without language, blank line"),
        pytest.param(f"~~~py\n{PROGRAM}\n~~~", id="tilde fence"),
        pytest.param(f"  ```python\n{INDENTED}\n  ```", id="indented fence"),
        pytest.param(f"```python\n{PROGRAM}", id="fence never closed"),
        pytest.param(f"{PROGRAM}\n```\nThat finds it.", id="fence opened by the prompt"),
        pytest.param(f"Here is it:\n\n```python\n{PROGRAM}\n```\nIt works.", id="prose and fence"),
        pytest.param(f"Sure\n{PROGRAM}\n\nThis returns the red cup.", id="prose, no fence"),
        pytest.param(f"{PROGRAM}\n\nDone", id="one word after"),
        pytest.param(
            f"First\n```python\nx = 1\n```\nthen\n```python\n{PROGRAM}\n```\nor\n"
            "```python\ny = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "z = 1\n" * 20 + "```",
            id="several fences",
        ),
        pytest.param(f"```sh\nls -l\n```\n```python\n{PROGRAM}\n```", id="shell first"),
        pytest.param(BODY, id="continues the prompt"),
        pytest.param(f"{BODY}\n```\nExplained.", id="continues the prompt, then a fence"),
        pytest.param(f"{BODY}\n\n# query: x\n{PROGRAM}", id="goes on with the next query"),
        pytest.param(f"{PROGRAM}\n\nexecute_command(image)", id="calls itself"),
        pytest.param(
            f"```python\n{PROGRAM}\n\nresult = execute_command(image)\nprint(result)\n```",
            id="calls itself in a fence",
        ),
        pytest.param("\n".join(f">>> {line}" for line in PROGRAM.splitlines()), id="prompts"),
    ],
)
def test_the_program_is_found(text: str) -> None:
    assert extract_code(text) == PROGRAM


def test_helpers_and_imports_before_it_are_kept() -> None:
    helpers = "import math\n\ndef helper(x):\n    return math.sqrt(x)\n\nLIMIT = 3\n\n"
    text = f"Here you go:\n{helpers}{PROGRAM}\n"
    assert extract_code(text).startswith("import math")
    assert "LIMIT = 3" in extract_code(text) and extract_code(text).endswith("return cups[0]")
    assert extract_code(f"```\n{helpers}{PROGRAM}\n```") == helpers + PROGRAM


def test_a_helper_after_it_is_kept() -> None:
    text = f"```\n{PROGRAM}\n\ndef helper(x):\n    return x\n```"
    assert "def helper" in extract_code(text)


def test_arguments_with_annotations_continue_the_prompt() -> None:
    text = (
        "video: VideoSegment, question, possible_answers) -> str:\n    return possible_answers[0]"
    )
    assert extract_code(text) == f"def execute_command({text}"


def test_a_script_without_entry_point() -> None:
    assert extract_code('answer = image_patch.exists("cup")\n') == (
        'answer = image_patch.exists("cup")'
    )
    text = "```python\nx = 1\n```\nor better\n```python\ny = 2\nanswer = y\n```"
    assert extract_code(text) == "y = 2\nanswer = y"


def test_the_first_line_alone_lost_its_indentation() -> None:
    text = "import math\n    def execute_command(image):\n        return math.pi"
    assert extract_code(text) == "import math\ndef execute_command(image):\n    return math.pi"


def test_a_broken_program_comes_back_for_the_sandbox_to_judge() -> None:
    broken = "def execute_command(image):\n    return ImagePatch(image"
    assert extract_code(f"```python\n{broken}\n```") == broken
    assert extract_code(broken) == broken
    assert extract_code("image):\n    return (") == "def execute_command(image):\n    return ("


@pytest.mark.parametrize("text", ["", "\n \n", "```", "```python\n```", "\x00", "I cannot."])
def test_nothing_there(text: str) -> None:
    found = extract_code(text)
    assert found == (text if text == "I cannot." else "")


pieces = st.sampled_from(
    ["```", "```python", "~~~", "\n", "    ", "\t", "def execute_command(", "image):", "return 1"]
    + ["Sure", "(", '"""', "'", "\\", "\x0c", ">>> ", "# query: x", "é", "x = 1", "\r\n"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(pieces, max_size=25).map("".join))
def test_never_raises(text: str) -> None:
    assert isinstance(extract_code(text), str)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80))
def test_never_raises_on_any_text(text: str) -> None:
    assert isinstance(extract_code(text), str)


def test_long_answers_take_no_time() -> None:
    text = "word " * 2000 + "\n" + PROGRAM + "\nthen (prose\n" * 3000
    found = extract_code(text)
    ast.parse(found)
    assert found == PROGRAM
