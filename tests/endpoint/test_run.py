"""``viper run`` with the profile ``endpoint``: pictures, usage, cost and fields of each request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.commands.test_bad_input import viper
from tests.endpoint.conftest import Start
from tests.endpoint.model import KEY, Model, digests, sent

FIELDS = {"model", "messages", "temperature", "seed", "n", "max_tokens"}
"""What a request holds; ``stop`` only where a strategy needs it."""

ENDPOINT = (Path(__file__).parents[2] / "viper/profiles/endpoint.toml").read_text()


def pixels(path: Path) -> Any:
    return np.array(Image.open(path))


def run(
    capsys: pytest.CaptureFixture[str], path: Path, *more: str, query: str = "what is the cube?"
) -> dict[str, Any]:
    code, out, err = viper(
        capsys, "run", str(path), query, "--json", "--profile", "endpoint", *more
    )
    assert code == 0, err
    assert KEY not in out + err
    record: dict[str, Any] = json.loads(out)
    return record


def check_counts(record: dict[str, Any], model: Model) -> None:
    """What the user is shown is what the server counted, to the token and the cent."""
    usage = record["usage"]
    assert usage["llm_calls"] == len(model.asked)
    assert usage["prompt_tokens"] == model.prompt_tokens
    assert usage["completion_tokens"] == model.completion_tokens
    assert usage["cost_usd"] == pytest.approx(model.cost_usd(), abs=1e-9)


def test_the_picture_arrives_whole_and_its_crops_too(
    start: Start, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = start()
    record = run(capsys, small)
    assert record["answer"] == "a cube"
    assert model.kinds == ["program", "boxes", "yes_no", "vqa", "llm_query"]
    whole, crop = sent(pixels(small)), sent(pixels(small)[:, :30])
    arrived = [digests(asked.request.pictures) for asked in model.asked]
    assert arrived == [*[digests([whole])] * 2, *[digests([crop])] * 2, []]
    check_counts(record, model)


def test_a_large_picture_arrives_scaled_and_its_boxes_are_of_the_original(
    start: Start, wide: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = start()
    record = run(capsys, wide, query="the cube")
    assert record["box"] == [0.0, 0.0, 1024.0, 900.0]
    half = sent(pixels(wide))
    assert half.shape == (450, 1024, 3)
    assert [digests(asked.request.pictures) for asked in model.asked] == [digests([half])] * 2
    check_counts(record, model)


EXPLORED = [
    "<thought>I look.</thought><code>\ncubes = image_patch.find('cube')\nlen(cubes)\n</code>",
    "```python\nkind = cubes[0].simple_query('what is this?')\nkind\n```",
    "I see a cube, and nothing else that matters here.",
    '{"name": "python", "arguments": {"code": "final_answer = kind"}}',
    "<done></done>",
]


def in_turn(*replies: str) -> Any:
    """Replies in their order, the last for ever."""
    left = list(replies)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def test_explore(start: Start, small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = start(action=in_turn(*EXPLORED))
    record = run(capsys, small, "--strategy", "explore")
    assert record["answer"] == "A cube"
    kinds = "action boxes action vqa action action action"  # no caption: the model sees
    assert model.kinds == kinds.split()
    whole = digests([sent(pixels(small))])
    assert all(digests(each.pictures) == whole for each in model.of("action"))
    check_counts(record, model)


def test_each_of_ten_turns_begins_with_the_one_before(
    start: Start, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = [f"I count on.\n<code>\nn = {number}\nn\n</code>" for number in range(8)]
    model = start(action=in_turn(*turns, "<code>final_answer = n</code>", "<done></done>"))
    record = run(capsys, small, "--strategy", "explore", query="how many cubes are there?")
    messages = [each.body["messages"] for each in model.of("action")]
    assert record["answer"] == 7 and len(messages) == 10
    for before, after in zip(messages, messages[1:], strict=False):
        assert after[: len(before)] == before and len(after) == len(before) + 2
    assert [message["role"] for message in messages[-1]][:4] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    check_counts(record, model)


def test_plan(start: Start, small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = start()
    record = run(capsys, small, "--strategy", "plan")
    assert record["answer"] == "a cube"
    assert model.kinds[:3] == ["plan", "program", "boxes"]
    assert record["trials"][0]["plan"] == "1. Find the cube.\n2. Ask what it is."
    whole = digests([sent(pixels(small))])
    assert all(digests(asked.request.pictures) == whole for asked in model.asked[:3])
    check_counts(record, model)


def test_seek(start: Start, small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = start()
    record = run(capsys, small, "--strategy", "seek")
    assert record["answer"] == "a cube"
    assert model.kinds == ["split", "next", "vqa", "verdict"]
    assert [len(asked.request.pictures) for asked in model.asked] == [0, 1, 1, 0]
    check_counts(record, model)


@pytest.mark.parametrize(
    ("strategy", "kinds"),
    [
        ("vqa", ["vqa"]),
        ("captions", ["caption", "llm_query"]),
        ("detector", ["boxes"]),
        ("llm", ["llm_query"]),
    ],
)
def test_single_models(
    strategy: str, kinds: list[str], start: Start, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = start()
    query = "the cube" if strategy == "detector" else "what is the cube?"
    record = run(capsys, small, "--strategy", strategy, query=query)
    assert record["failure"] is None
    assert model.kinds == kinds
    check_counts(record, model)


def test_feedback_is_a_turn_that_begins_with_the_one_before(
    start: Start, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = (
        "```python\ndef execute_command(image, question, possible_answers):\n    return [][0]\n```"
    )
    model = start(program=in_turn(broken, broken.replace("[][0]", "'red'")))
    record = run(capsys, small)
    first, second = (each.body["messages"] for each in model.of("program"))
    assert record["answer"] == "red" and second[: len(first)] == first
    assert "IndexError" in second[-1]["content"]
    check_counts(record, model)


@pytest.mark.parametrize("strategy", ["program", "explore", "plan", "seek"])
def test_nothing_is_sent_that_the_profile_did_not_ask_for(
    strategy: str, start: Start, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = start(action=in_turn(*EXPLORED))
    run(capsys, small, "--strategy", strategy)
    for kind, request in model.asked:
        assert set(request.body) - {"stop"} == FIELDS
        assert ("stop" in request.body) <= (kind in ("action", "llm_query"))
        assert all(set(message) == {"role", "content"} for message in request.body["messages"])
        images = [part for part in request.parts if part["type"] != "text"]
        assert all(set(image) == {"type", "image_url"} for image in images)
        assert all(set(image["image_url"]) == {"url"} for image in images)


OPTIONS = (
    'max_retries = 5, omit = ["temperature", "seed", "n", "stop"], detail = "low", '
    'max_side = 20, thinking_tokens = 900, extra = { reasoning_effort = "low" }, '
    "chat_template_kwargs = { enable_thinking = false },"
)


@pytest.mark.parametrize("strategy", ["program", "explore", "plan", "seek"])
def test_options_of_the_profile_reach_every_request(
    strategy: str, start: Start, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = start(action=in_turn(*EXPLORED))
    mine = tmp_path / "mine.toml"
    mine.write_text(ENDPOINT.replace("max_retries = 5,", OPTIONS))
    record = run(capsys, small, "--strategy", strategy, "--profile", str(mine))
    assert record["failure"] is None
    for kind, request in model.asked:
        body = request.body
        assert set(body) == {
            "model", "messages", "max_tokens", "reasoning_effort", "chat_template_kwargs",
        }, kind  # fmt: skip
        assert body["max_tokens"] > 900
        assert body["chat_template_kwargs"] == {"enable_thinking": False}
        images = [part["image_url"] for part in request.parts if part["type"] == "image_url"]
        assert all(image["detail"] == "low" for image in images)
        assert all(max(shown.shape) <= 20 for shown in request.pictures)


@pytest.mark.parametrize("strategy", ["program", "explore", "plan"])
def test_a_writer_that_does_not_see_gets_no_picture(
    strategy: str, start: Start, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = start(
        program="```python\ndef execute_command(image, question, possible_answers):\n"
        "    return 'cube'\n```",
        action=in_turn("<code>final_answer = 'cube'</code>", "<done></done>"),
    )
    mine = tmp_path / "blind.toml"
    vision = ["detector", "matcher", "vqa", "video", "text"]
    lines = ENDPOINT.replace("sees = true\n", "").splitlines(keepends=True)
    mine.write_text("".join(line for line in lines if line.split(" ")[0] not in vision))
    record = run(capsys, small, "--strategy", strategy, "--profile", str(mine))
    assert record["answer"] == "cube"
    assert not any(asked.request.pictures for asked in model.asked)
    check_counts(record, model)


@pytest.mark.parametrize(
    ("corners", "said"),
    [
        ([450, 100, 600, 300], "right"),
        ([100, 450, 300, 600], "x and y are exchanged: set its option y_first"),
        ([302, 45, 403, 134], "the model writes pixels: set its option in_pixels = true"),
        ([700, 700, 800, 800], "none of its 1 boxes is near the circle"),
    ],
)
def test_setup_checks_how_the_model_writes_boxes(
    corners: list[int], said: str, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    model = start(boxes=json.dumps([{"label": "red circle", "bbox_2d": corners}]))
    code, out, err = viper(capsys, "setup", "--profile", "endpoint", "--yes")
    assert code == 0, err
    assert f"boxes    of a drawing, in one request: {said}" in out
    assert len([each for each in model.of("boxes") if "red circle" in each.words]) == 1
