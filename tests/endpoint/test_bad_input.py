"""Endpoints and models that cannot do what the profile ``endpoint`` asks: one clear line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_bad_input import viper
from tests.endpoint.conftest import Start
from tests.endpoint.model import KEY
from tests.models.llm.openai_server import Answer, Received, refusal

PROSE = "The picture shows something on a table."
CHOICE = ("--options", "the ball; the cube; the ring")


def run(capsys: pytest.CaptureFixture[str], path: Path, *more: str) -> tuple[str, str]:
    """The last line of stdout and of stderr of a run that gave no answer."""
    given = ["run", str(path), "what is it?", "--profile", "endpoint", *more]
    code, out, err = viper(capsys, *given)
    assert code == 1, (out, err)
    assert "Traceback" not in err and KEY not in out + err
    return out.rstrip("\n"), err.rstrip("\n").splitlines()[-1]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "image_url is only supported by certain models"),
        (400, "At most 0 image(s) may be provided in one prompt."),
        (413, "Request Entity Too Large"),
        (422, "Input should be a valid string"),
    ],
)
@pytest.mark.parametrize("strategy", ["program", "explore", "plan", "vqa"])
def test_an_endpoint_that_refuses_the_picture(
    strategy: str,
    status: int,
    message: str,
    start: Start,
    small: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(request: Received) -> Answer | str:
        return refusal(status, f"{message} {KEY}") if request.pictures else "Yes."

    model = start(**dict.fromkeys(("program", "action", "plan", "vqa", "caption"), refuse))
    out, line = run(capsys, small, "--strategy", strategy)
    said = out or line
    assert "\n" not in said and f"(status {status}): {message}" in said
    assert "1 picture of at most 1024 pixels a side" in said
    assert "set sees = false" in said and "lower max_side" in said
    assert len(model.asked) <= 3, "a refused request is not asked for again"


@pytest.mark.parametrize(
    ("kinds", "more", "says"),
    [
        (["program"], (), "no_program: the reply held no program"),
        (["boxes"], (), "was asked for boxes and wrote no JSON list of boxes"),
        (["yes_no"], (), "was asked for yes or no and wrote 'The picture"),
        (["letter"], CHOICE, "named none of the 3 options but wrote 'The picture"),
        (["plan"], ("--strategy", "plan"), "plan: no plan could be read from 4 replies"),
        (["action"], ("--strategy", "explore"), "3 replies in a row held no action"),
        (["split", "next", "verdict"], ("--strategy", "seek"), "neither an action nor a verdict"),
        (["boxes"], ("--strategy", "detector"), "was asked for boxes and wrote"),
    ],
)
def test_a_model_that_ignores_the_format(
    kinds: list[str],
    more: tuple[str, ...],
    says: str,
    start: Start,
    small: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    replies: dict[str, Any] = dict.fromkeys(kinds, PROSE)
    choose = (
        "```python\ndef execute_command(image, question, possible_answers):\n"
        "    return select_answer('it has corners', question, possible_answers)\n```"
    )
    model = start(**({"program": choose} | replies if more == CHOICE else replies))
    task = ("--task", "ground") if "detector" in more else ()
    out, line = run(capsys, small, *more, *task)
    said = out or line
    assert "\n" not in said and says in said
    assert set(kinds) <= set(model.kinds)


def test_a_refused_key_is_never_shown(
    start: Start, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = start(program=refusal(401, f"Incorrect API key provided: {KEY[:14]}***"))
    out, line = run(capsys, small)
    assert out == "" and "refused the key (status 401)" in line and "OPENAI_API_KEY" in line
    assert KEY[:14] not in line and len(model.asked) == 1


def test_a_refusal_to_look_is_the_tools_failure(
    start: Start, small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(vqa={"content": None, "refusal": "I can't identify people."})
    out, _ = run(capsys, small)
    assert out.startswith("no answer: tool ") and "declined to answer: I can't identify" in out


@pytest.mark.parametrize("arguments", [("--strategy", "plan"), ()])
def test_a_run_without_a_key_for_the_official_endpoint_is_a_wrong_call(
    arguments: tuple[str, ...],
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("VIPER_HOME", str(tmp_path / "home"))
    given = ["run", str(small), "what is it?", "--profile", "endpoint", *arguments]
    code, out, err = viper(capsys, *given)
    assert (code, out) == (2, "") and "OPENAI_API_KEY" in err.splitlines()[-1]
    assert "Traceback" not in err
