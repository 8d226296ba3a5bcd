"""The whole thing with the shipped weights: the README's words, the demo, the retry's cost."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from PIL import Image

from tests.forked import python
from viper import Reasoner, load_profile
from viper.cli import cli, main

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
MEDIA = ROOT / "viper" / "embedded" / "media"

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def reasoner() -> Iterator[Reasoner]:
    with Reasoner(load_profile("embedded")) as ready:
        yield ready


def demo_items() -> list[dict]:
    return json.loads((MEDIA / "demo.json").read_text())


@pytest.mark.parametrize("item", demo_items(), ids=lambda item: item["media"])
def test_the_demo_questions_are_answered_rightly(reasoner: Reasoner, item: dict) -> None:
    strategy = item.get("strategy", "program")
    result = reasoner.run(
        str(MEDIA / item["media"]),
        item["query"],
        options=item.get("options", ()),
        strategy=strategy,
    )
    assert result.answer is not None and result.trace.task == item["task"]
    if item["task"] == "ground":
        from viper.agreement import box_iou

        assert box_iou(result.answer.box or (0, 0, 0, 0), item["answer"]) >= 0.5
    else:
        assert result.answer.value == item["answer"]
    assert result.warnings == ()
    assert bool(result.trace.turns) == (strategy == "look")
    assert ("def execute_command" in (result.program or "")) == (strategy == "program")


@pytest.mark.parametrize(
    "question", ["is there an elephant?", "Wie viele Kugeln gibt es?", "what does the cat wear?"]
)
def test_it_is_sure_of_nothing_that_it_does_not_know(reasoner: Reasoner, question: str) -> None:
    answer = reasoner.run(str(MEDIA / demo_items()[0]["media"]), question).answer
    assert answer is None or answer.confidence is None


def test_it_is_sure_of_nothing_in_a_pixel(reasoner: Reasoner) -> None:
    pixel = Image.new("RGB", (1, 1), (255, 0, 0))
    answer = reasoner.run(pixel, "how many balls are there?").answer
    assert answer is None or answer.confidence is None


def test_a_second_query_on_the_same_picture_runs_no_tower_again(reasoner: Reasoner) -> None:
    picture = str(MEDIA / demo_items()[0]["media"])
    program = "answer = len(ImagePatch(image).find('thing'))"
    reasoner.execute(program, picture)
    again = reasoner.execute(program, picture)
    assert again.trace.usage.model_calls == 0
    assert all(call.cached for call in again.trace.trials[0].tool_calls)


def test_a_retry_at_a_lower_threshold_encodes_nothing(reasoner: Reasoner) -> None:
    toolbox = reasoner.components.toolbox
    picture = str(MEDIA / demo_items()[0]["media"])
    reasoner.execute("answer = len(ImagePatch(image).find('thing'))", picture)
    before = dict(toolbox.encodings.computed)
    result = reasoner.execute("answer = ImagePatch(image).find('red ball')[0]", picture)
    trials = result.trace.trials
    assert len(trials) > 1 and {trial.correction for trial in trials[1:]} == {"self_tune"}
    assert result.trace.usage.llm_calls == 0 and toolbox.encodings.computed == before


def test_python_from_the_readme() -> None:
    snippet = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert snippet is not None
    done = subprocess.run(
        python("-c", snippet.group(1) + "\nreasoner.close()"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "def execute_command" in done.stdout


SEARCH_COMMANDS = """
lab world knowledge lore --questions 5
setup index images lore/gallery --state indexes
setup index text lore/texts.jsonl --state indexes
run lore/questions/0002.png "what do people of crarnd call the color of the rubber cube?" --strategy seek --state indexes
"""  # noqa: E501


def readme_commands(language: str) -> list[list[str]]:
    """Return the arguments of the viper commands in the README's blocks of a language."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    text = "\n".join(block for tag, block in blocks if tag == language)
    lines = re.findall(r"^viper (.+)$", text, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize("line", re.findall(r"^viper run .+  # .+$", README, re.MULTILINE))
def test_the_answers_that_the_readme_states(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, _, stated = line.partition("  # ")
    with pytest.raises(SystemExit):
        main([re.sub(r"^viper/", f"{ROOT}/viper/", word) for word in shlex.split(command)[1:]])
    assert stated in capsys.readouterr().out


@pytest.mark.timeout(900)  # it learns and searches
def test_commands_from_the_readme(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands = readme_commands("")
    assert len(commands) >= 8
    commands += [shlex.split(line) for line in SEARCH_COMMANDS.strip().splitlines()]
    monkeypatch.chdir(tmp_path)
    for command in commands:
        arguments = [
            re.sub(r"^(viper/embedded|examples)/", f"{ROOT}/\\1/", word) for word in command
        ]
        if "eval" in arguments:  # thirty samples take a minute and show no more than six
            arguments[arguments.index("--limit") + 1] = "6"
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0, (command, capsys.readouterr())
    assert (tmp_path / "found.png").stat().st_size > 1_000


def test_commands_from_the_readme_that_need_files_parse() -> None:
    commands = readme_commands("sh")
    assert len(commands) == 8
    for arguments in commands:
        command: click.Command = cli
        while isinstance(command, click.Group) and arguments:
            subcommand = command.get_command(click.Context(command), arguments.pop(0))
            assert subcommand is not None
            command = subcommand
        command.make_context(command.name, arguments)


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
    assert len(files) >= 6 and max(sizes) <= 16e6 and sum(sizes) <= 64e6


def test_a_process_may_end_while_models_are_loading() -> None:
    program = (
        "import time\nfrom viper import Reasoner, load_profile\n"
        "Reasoner(load_profile('embedded'))\ntime.sleep(1)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_from_python_shows_no_progress_bar_of_a_library() -> None:
    code = (
        "import numpy as np\n"
        "from viper import Reasoner, load_profile\n"
        "with Reasoner(load_profile('embedded')) as reasoner:\n"
        "    reasoner.run(np.zeros((48, 64, 3), np.uint8), 'the cube')\n"
    )
    ended = subprocess.run(python("-c", code), capture_output=True, text=True, check=True)
    assert "it/s" not in ended.stderr and "%" not in ended.stderr, ended.stderr
