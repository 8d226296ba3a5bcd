"""``viper eval`` with the profile ``endpoint``: the three families of the embedded world, and own
files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_bad_input import viper
from tests.endpoint.conftest import Start
from tests.endpoint.model import KEY, Model, digests, sent, written
from tests.models.llm.openai_server import Answer, Received, refusal
from viper.data.sample import DatasetSpec
from viper.evaluate.evaluation import Evaluation
from viper.models.media import media_from

N = 20


def evaluate(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> dict[str, Any]:
    given = ["--profile", "endpoint", "--out", str(folder), "--json", "--no-html"]
    code, out, err = viper(capsys, "eval", *arguments, *given)
    assert code == 0, err
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert KEY not in out + err and KEY.encode() not in stored and "Traceback" not in err
    report: dict[str, Any] = json.loads(out)
    return report


def check_counts(report: dict[str, Any], model: Model, refused: int = 0) -> None:
    usage = report["timing"]["usage"]
    assert usage["llm_calls"] == len(model.asked) - refused
    assert usage["prompt_tokens"] == model.prompt_tokens
    assert usage["completion_tokens"] == model.completion_tokens
    assert usage["cost_usd"] == pytest.approx(model.cost_usd(), abs=1e-6)


def thing(request: Received) -> str:
    """An answer of its own for each picture, so that no later request is in the cache."""
    return f"cube {digests(request.pictures)[0][:12]}"


@pytest.mark.parametrize("family", ["referring", "question", "video"])
def test_twenty_samples_of_a_family(
    family: str, start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = start(vqa=thing, video=thing, about_video=thing)
    given = ["world", "--split", f"val:{family}", "--limit", str(N)]
    report = evaluate(capsys, tmp_path / "run", *given)
    assert (report["n"], report["complete"], report["failures"]) == (N, True, {})
    check_counts(report, model)
    samples = Evaluation("world", DatasetSpec(split=f"val:{family}"), N).samples()
    media = [media_from(sample.load()) for sample in samples]
    queries = {sample.text: one for sample, one in zip(samples, media, strict=True)}
    assert len(model.of("program")) == N
    for request in model.of("program"):
        asked = next(text for text in queries if text in request.parts[-1]["text"])
        shown = queries[asked].video if family == "video" else queries[asked].images
        arrived = digests(request.pictures)
        assert len(arrived) == (8 if family == "video" else 1)
        assert set(arrived) <= set(digests(map(sent, shown)))
    assert all(max(shown.shape) <= 1024 for _, each in model.asked for shown in each.pictures)


@pytest.mark.parametrize("strategy", ["explore", "plan", "seek"])
def test_the_other_strategies(
    strategy: str, start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def act(request: Received) -> str:
        done = len(request.body["messages"]) > 2
        return (
            "The answer is stored. <done></done>" if done else "<code>final_answer = 'cube'</code>"
        )

    model = start(vqa=thing, action=act, verdict=lambda request: said(request))
    given = ["world", "--split", "val:question", "--limit", "4", "--strategy", strategy]
    report = evaluate(capsys, tmp_path / "run", *given)
    assert (report["n"], report["failures"]) == (4, {})
    check_counts(report, model)


def said(request: Received) -> str:
    found = request.parts[-1]["text"].partition("> ")[2].splitlines()[0]
    return f"verdict: answer\nextracted: {found}"


def test_a_second_run_asks_nothing_and_costs_nothing(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = start()
    given = ["world", "--split", "val:referring", "--limit", "3"]
    first = evaluate(capsys, tmp_path / "first", *given)
    asked = len(model.asked)
    second = evaluate(capsys, tmp_path / "second", *given)
    assert len(model.asked) == asked
    assert second["figures"] == first["figures"]
    assert second["timing"]["usage"]["cost_usd"] == 0.0


def own_set(folder: Path, sides: list[tuple[int, int]]) -> Path:
    rows = ["media,query,answer,id"]
    for number, side in enumerate(sides):
        path = written(folder / f"{number}.png", side)
        rows.append(f"{path.name},what is thing {number}?,a cube,q{number}")
    (folder / "mine.csv").write_text("\n".join(rows) + "\n")
    return folder / "mine.csv"


def test_files_of_a_user_with_a_picture_above_the_limit_of_the_server(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sample fails, with a line that says what to do; the others are answered."""

    def program(request: Received) -> Answer | str:
        too_large = max(request.pictures[0].shape) > 300
        code = "```python\ndef execute_command(image):\n    return 'a cube'\n```"
        return refusal(413, "Payload Too Large") if too_large else code

    model = start(program=program)
    path = own_set(tmp_path, [(40, 60), (30, 50), (2000, 1000)])
    report = evaluate(capsys, tmp_path / "run", str(path))
    assert report["figures"]["question.accuracy"]["value"] == pytest.approx(2 / 3)
    (failure,) = report["failures"].values()
    assert failure["count"] == 1 and failure["examples"] == ["q2"]
    assert max(model.of("program")[-1].pictures[0].shape) <= 1024
    check_counts(report, model, refused=1)
