"""Wrong values of a profile: none passes, each is one line that names file, line and key."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import viper.tools
from viper.cli import main
from viper.errors import ProfileError, UsageError
from viper.profiles.files import read_profile
from viper.profiles.wiring import Profile
from viper.reasoner import RunOptions
from viper.strategies.explore import ExploreSettings
from viper.strategies.seek import SeekSettings
from viper.strategies.settings import RunSettings
from viper.tools.settings import THRESHOLD_NAMES, ToolSettings

BASE = """\
# trials = 1, batch = 1: not these lines
[llm]
backend = "transformers"
model = "embedded:writer"
[tools]
cache_mb = 64
{tools}
[run]
seed = 0
{run}
[sensitivities]
{sensitivities}
"""
LINES = {"tools": 7, "run": 10, "sensitivities": 12}


def written(folder: Path, **lines: str) -> Path:
    path = folder / "mine.toml"
    given = {"tools": "", "run": "", "sensitivities": ""} | lines
    path.write_text(BASE.format(**given), encoding="utf-8")
    return path


WRONG = [
    ("tools", 'find_scope = "hole"', "unknown find scope 'hole'; known: crop, whole"),
    ("tools", 'find_check = "nope"', "known: detector, detector+matcher"),
    ("tools", 'exists_check = "nope"', "known: detector, detector+vqa"),
    ("tools", "crop_margin = -7", "crop_margin is -7; expected 0 to 1"),
    ("tools", 'crop_shape = "round"', "unknown crop shape 'round'; known: box, padded, square"),
    ("tools", "crop_margin = nan", "crop_margin is nan; expected 0 to 1"),
    ("tools", "batch = 0", "batch is 0; expected 1 or more"),
    ("tools", "cache_entries = -1", "cache_entries is -1; expected 0 or more"),
    ("tools", "attribute_families = [[1, 2]]", "input should be a valid string, got 1"),
    ("run", 'prompt_style = "compcat"', "known: chat, compact, full"),
    ("run", 'router = "nope"', "unknown router 'nope'; known: bm25, embeddings"),
    ("run", 'graph = "nope"', "unknown graph 'nope'; known: FILE.toml, avis, every"),
    ("run", 'without_actions = ["nope"]', "unknown action or group of actions 'nope'; known: "),
    ("run", 'without_actions = "ocr"', "input should be a valid array, got 'ocr'"),
    ("run", 'retrieval = "nope"', "known: bm25, embeddings, fixed"),
    ("run", 'example_order = "nope"', "known: falling, rising"),
    ("run", "trials = -3", "trials is -3; expected 1 to 50"),
    ("run", "trials = 0", "trials is 0; expected 1 to 50"),
    ("run", "temperature = -1.0", "temperature is -1.0; expected 0 to 2"),
    ("run", "temperature = nan", "temperature is nan; expected 0 to 2"),
    ("run", "retry_temperature = 9", "retry_temperature is 9; expected 0 to 2"),
    ("run", "votes = 0", "votes is 0; expected 1 to 25"),
    ("run", "examples = -1", "examples is -1; expected 0 to 1000"),
    ("run", "max_tokens = 0", "max_tokens is 0; expected 1 or more"),
    ("run", "max_turns = 0", "max_turns is 0; expected 1 to 1000"),
    ("run", "max_cost_usd = nan", "max_cost_usd is nan; 0 or more, 0 for no bound"),
    ("run", "api_budget = -1", "api_budget is -1; 0 or more"),
    ("run", "max_memory_gb = -1", "max_memory_gb is -1; expected 0 (no bound) or more"),
    ("tools", "depth_ratios = { is_in = 2.0 }", "unknown routine with a depth ratio 'is_in'"),
    ("tools", "depth_ratios = { is_on = 0.5 }", "depth_ratios.is_on is 0.5; expected 1 or more"),
    (
        "sensitivities",
        '"detektor.threshold" = { start = 0.3, step = 0.1, floor = 0.1 }',
        "unknown key; the nearest is detector.threshold; known: detector.threshold, ",
    ),
    (
        "sensitivities",
        '"image-search.threshold" = { start = 0.3, step = 0.1, floor = 0.1 }',
        "the nearest is image_search.threshold",
    ),
    (
        "sensitivities",
        '"video.threshold" = { start = 0.3, step = nan, floor = 0.1 }',
        "expected finite numbers",
    ),
]


@pytest.mark.parametrize(("section", "line", "said"), WRONG, ids=[line for _, line, _ in WRONG])
def test_a_wrong_value_is_one_line(tmp_path: Path, section: str, line: str, said: str) -> None:
    path = written(tmp_path, **{section: line})
    with pytest.raises(ProfileError) as caught:
        read_profile(str(path))
    text, key = str(caught.value), line.split(" =")[0].strip('"')
    assert text.startswith(f"{path}:{LINES[section]}: {section}.{key}")
    assert said in text and "\n" not in text


def test_the_command_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, run="trials = -3")
    with pytest.raises(SystemExit) as ended:
        main(["setup", "profile", "check", str(path), "--offline"])
    assert ended.value.code == 2
    assert f"{path}:10: run.trials: trials is -3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "at"),
    [("[run]\ntrials = 0", 2), ("run.trials = 0", 1), ("run = { seed = 1, trials = 0 }", 1)],
)
def test_the_line_is_found_however_a_key_is_written(tmp_path: Path, line: str, at: int) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'{line}\n[llm]\nbackend = "openai"\n')
    with pytest.raises(ProfileError, match=f"toml:{at}: run.trials: "):
        read_profile(str(path))


@pytest.mark.parametrize(
    "text",
    [
        '[run]\ngraph = "every"\nmax_steps = 5\nmax_turns = 3',
        '[run]\nmax_steps = 5\n[run.seek]\ngraph = "every"\n[run.explore]\nmax_turns = 3',
        'run = { seek = { graph = "every", max_steps = 5 }, max_turns = 3 }',
    ],
)
def test_a_strategy_may_have_a_table_of_its_own(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'{text}\n[llm]\nbackend = "openai"\n')
    run = read_profile(str(path)).run
    assert run == RunSettings().changed(graph="every", max_steps=5, max_turns=3)
    assert (run.of(SeekSettings).max_steps, run.of(ExploreSettings).max_turns) == (5, 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[seeker]\nbackend = 'openai'\n[run.seek]\nmax_steps = 0", ":4: run.seek.max_steps: max_"),
        (
            "[run]\nseek = { max_step = 3 }",
            ":2: run.seek.max_step: unknown key; the nearest is max_steps; known: graph",
        ),
        ("[run]\nmax_steps = 3\n[run.seek]\nmax_steps = 3", ":4: run.seek.max_steps: stands in"),
        ("[run]\nseek = 3", ":2: run.seek: expected a table with keys such as graph, "),
        (
            "[run]\nmax_step = 3",
            ":2: run.max_step: unknown key; the nearest is max_steps; known: strategy, api, ",
        ),
    ],
)
def test_a_wrong_key_of_a_strategy_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'{text}\n[llm]\nbackend = "openai"\n')
    with pytest.raises(ProfileError) as caught:
        read_profile(str(path))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_threshold_in_a_table_of_its_own_is_blamed_by_line(tmp_path: Path) -> None:
    path = written(tmp_path)
    with path.open("a") as file:
        file.write('[sensitivities."detektor.threshold"]\nstart = 1\nstep = 1\nfloor = 0\n')
    with pytest.raises(ProfileError, match=r"toml:13: sensitivities\.detektor\.threshold: unknown"):
        read_profile(str(path))


def test_a_routine_may_have_a_threshold_of_its_own(tmp_path: Path) -> None:
    own = '"bright.threshold" = { start = 0.5, step = 0.1, floor = 0.1 }'
    path = written(tmp_path, run='api = "abstract+own.py"', sensitivities=own)
    (tmp_path / "own.py").write_text("least = tools.threshold('bright.threshold')\n")
    assert set(read_profile(str(path)).tools.sensitivities) == {"bright.threshold"}
    (tmp_path / "own.py").write_text("")
    with pytest.raises(ProfileError, match="unknown key"):
        read_profile(str(path))


def test_the_thresholds_are_those_that_the_tools_ask_for() -> None:
    asked = {
        node.value
        for path in Path(viper.tools.__file__).parent.glob("*.py")
        if path.stem != "settings"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.endswith(".threshold")
    }
    assert asked == set(THRESHOLD_NAMES)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('graph = "./absent.toml"', "absent.toml"),
        ('decisions = "./absent.jsonl"', "no such file of decisions"),
        ('without_actions = ["caption", "ocr"]', None),
        (
            'graph = "./one.toml"\nwithout_actions = ["ocr"]',
            "graph one: without ocr nothing can begin",
        ),
    ],
)
def test_what_seek_is_given_is_checked_without_a_run(
    tmp_path: Path, line: str, said: str | None
) -> None:
    (tmp_path / "one.toml").write_text('[states]\nSTART = ["ocr"]\nocr = ["ocr"]\n')
    problems = Profile(read_profile(str(written(tmp_path, run=line)))).problems()
    assert [said in one for one in problems] == [True] if said else not problems


@pytest.mark.parametrize(
    ("name", "value"),
    [("trials", 0), ("trials", -3), ("temperature", -1.0), ("temperature", 2.5), ("max_turns", 0),
     ("max_seconds", -1.0), ("graph", None), ("without_actions", ("nope",))],
)  # fmt: skip
def test_a_call_is_held_to_the_same_bounds(name: str, value: object) -> None:
    options = RunOptions(**{name: value})
    if value is None:
        assert options.settings(RunSettings()) == RunSettings()
        return
    with pytest.raises(UsageError, match="nope" if name == "without_actions" else f"^{name} is "):
        options.settings(RunSettings())


def test_bounds_themselves_are_taken() -> None:
    run = RunSettings(trials=1, temperature=2.0, retry_temperature=0.0, examples=0, max_tokens=1)
    assert run.temperature == 2
    assert ToolSettings(crop_margin=0.0, cache_entries=0, cache_mb=0, batch=1).batch == 1
