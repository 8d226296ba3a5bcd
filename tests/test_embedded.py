"""The whole thing with the shipped weights: the README's words, the demo, the retry's cost."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from viper import Reasoner, load_profile
from viper.cli import main

ROOT = Path(__file__).resolve().parent.parent
MEDIA = ROOT / "viper" / "embedded" / "media"

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def reasoner() -> Iterator[Reasoner]:
    with Reasoner(load_profile("embedded")) as ready:
        yield ready


def demo_items() -> list[dict]:
    return json.loads((MEDIA / "demo.json").read_text())


@pytest.mark.parametrize("item", demo_items(), ids=lambda item: item["task"])
def test_the_demo_questions_are_answered_rightly(reasoner: Reasoner, item: dict) -> None:
    result = reasoner.run(
        str(MEDIA / item["media"]), item["query"], options=item.get("options", ())
    )
    assert result.answer is not None and result.trace.task == item["task"]
    if item["task"] == "ground":
        from viper.agreement import box_iou

        assert box_iou(result.answer.box or (0, 0, 0, 0), item["answer"]) >= 0.5
    else:
        assert result.answer.value == item["answer"]
    assert "def execute_command" in (result.program or "")


def test_a_second_query_on_the_same_picture_runs_no_tower_again(reasoner: Reasoner) -> None:
    picture = str(MEDIA / demo_items()[0]["media"])
    program = "answer = len(ImagePatch(image).find('thing'))"
    reasoner.execute(program, picture)
    again = reasoner.execute(program, picture)
    assert again.trace.usage.model_calls == 0
    assert all(call.cached for call in again.trace.trials[0].tool_calls)


def test_a_retry_at_a_lower_threshold_encodes_nothing(reasoner: Reasoner) -> None:
    hub = reasoner.components.hub
    picture = str(MEDIA / demo_items()[0]["media"])
    reasoner.execute("answer = len(ImagePatch(image).find('thing'))", picture)
    before = dict(hub.encodings.computed)
    result = reasoner.execute("answer = ImagePatch(image).find('purple zebra')[0]", picture)
    trials = result.trace.trials
    assert len(trials) > 1 and {trial.correction for trial in trials[1:]} == {"self_tune"}
    assert result.trace.usage.llm_calls == 0 and hub.encodings.computed == before


def test_python_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    snippet = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert snippet is not None
    done = subprocess.run(
        [sys.executable, "-c", snippet.group(1) + "\nreasoner.close()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "def execute_command" in done.stdout


@pytest.mark.timeout(900)  # it learns, writes a world and looks things up in it
def test_commands_from_the_readme(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    readme = (ROOT / "README.md").read_text()
    lines = re.findall(r"^viper (.+)$", readme, re.MULTILINE)
    assert len(lines) >= 4
    monkeypatch.chdir(tmp_path)
    for line in lines:
        arguments = [
            re.sub(r"^(viper/embedded|examples)/", f"{ROOT}/\\1/", part)
            for part in re.findall(r'"[^"]*"|\S+', line)
        ]
        with pytest.raises(SystemExit) as ended:
            main([part.strip('"') for part in arguments])
        assert ended.value.code == 0, (line, capsys.readouterr())
    assert (tmp_path / "found.png").stat().st_size > 1_000


def test_the_strategy_plan_needs_no_network(reasoner: Reasoner) -> None:
    item = demo_items()[0]
    result = reasoner.run(str(MEDIA / item["media"]), item["query"], strategy="plan")
    assert result.answer is not None and (result.trace.plan or "").startswith("1. ")


def test_json_has_every_documented_field(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    item = demo_items()[0]
    with pytest.raises(SystemExit):
        main(["run", str(MEDIA / item["media"]), item["query"], "--json"])
    record = json.loads(capsys.readouterr().out)
    expected = (
        "schema query task answer answer_kind choice_index box images program plan turns path "
        "strategy profile api seed failure trials tool_calls usage seconds"
    )
    assert set(expected.split()) <= set(record)
    assert {"llm_calls", "prompt_tokens", "completion_tokens", "model_calls", "cost_usd"} == set(
        record["usage"]
    )
    assert record["trials"][0]["program"] == record["program"]


def test_the_sum_of_the_weights_stays_small() -> None:
    files = list((ROOT / "viper" / "embedded" / "weights").rglob("*.safetensors"))
    sizes = [path.stat().st_size for path in files]
    assert len(files) >= 6 and max(sizes) <= 16e6 and sum(sizes) <= 40e6


def test_a_process_may_end_while_models_are_loading() -> None:
    program = (
        "import time\nfrom viper import Reasoner, load_profile\n"
        "Reasoner(load_profile('embedded'))\ntime.sleep(1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
