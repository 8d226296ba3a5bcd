"""Options of ``viper run`` and ``viper eval`` for corrections, votes, examples and thresholds."""

from __future__ import annotations

import json
import pickle
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_bad_input import refused, viper
from tests.evaluate.fake_backends import a_set
from viper.ace.bank import write_bank
from viper.commands import on_ray
from viper.commands.evaluating import ProfileRecipe, profile_of
from viper.commands.options import ProfileChoice
from viper.evaluate.runs.store import RunStore
from viper.schema import Example

THRESHOLDS = """
[sensitivities]
"detector.threshold" = { start = 0.5, step = 0.1, floor = 0.2, fixed = 0.3 }
"matcher.threshold" = { start = 0.5, step = 0.1, floor = 0.2 }
"""

FLAGS = {
    "--feedback": ("feedback", False, True),
    "--no-self-tune": ("self_tune", True, False),
    "--votes=3": ("votes", 1, 3),
    "--n-examples=1": ("examples", 4, 1),
    "--retrieval=bm25": ("retrieval", "fixed", "bm25"),
    "--example-order=falling": ("example_order", "rising", "falling"),
}


class Bench:
    """A set of eight questions, a profile of fake models with thresholds, a folder for runs."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.set, self.profile = a_set(folder / "set", 8)
        self.profile.write_text(self.profile.read_text() + THRESHOLDS)

    def eval(self, *more: str | Path, out: str = "run") -> tuple[int, str, str]:
        return viper(self._capsys, *self._line(out, more))

    def refused(self, *more: str | Path, out: str = "run") -> str:
        return refused(self._capsys, *self._line(out, more))

    def run(self, *more: str | Path) -> tuple[int, str, str]:
        query = "what color is thing 1?"
        line = ["run", self.picture, query, "--profile", self.profile, *more]
        return viper(self._capsys, *map(str, line))

    @property
    def picture(self) -> Path:
        return self.set.parent / "pictures" / "0.png"

    def settings(self, out: str = "run") -> Any:
        return json.loads((self.folder / out / "run.json").read_text())["settings"]

    def bank(self, name: str, program: str = "answer = 'red'") -> Path:
        path = self.folder / name
        example = Example(
            query="what color is the mug?",
            program=program,
            task="question",
            api="abstract",
            score=1.0,
            sample_id="mug",
            seed=0,
            llm="fake",
            api_hash="",
        )
        write_bank(path, [example])
        return path

    def _line(self, out: str, more: tuple[str | Path, ...]) -> list[str]:
        line = ["eval", self.set, "--profile", self.profile, "--out", self.folder / out, *more]
        return [str(one) for one in [*line, "--no-html"]]


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path, capsys)


@pytest.mark.parametrize("flag", FLAGS)
def test_every_option_is_in_the_manifest_and_resume_refuses_another(
    bench: Bench, flag: str
) -> None:
    name, before, after = FLAGS[flag]
    assert bench.eval("--limit", "2")[0] == 0
    assert bench.settings()[name] == before
    assert bench.eval("--limit", "2", flag, out="other")[0] == 0
    assert bench.settings("other")[name] == after
    code, _, err = bench.eval("--limit", "2", "--resume", flag)
    spelled = [json.dumps(value) if not isinstance(value, str) else value
               for value in (before, after)]  # fmt: skip
    assert code == 2 and f"{name}: {spelled[0]} in the run, {spelled[1]} now" in err


def test_the_other_way_round_undoes_what_the_profile_says(bench: Bench) -> None:
    text = bench.profile.read_text().replace("trials = 2", "feedback = true\nself_tune = false")
    bench.profile.write_text(text)
    assert bench.eval("--limit", "2", "--from-scratch", "--self-tune")[0] == 0
    settings = bench.settings()
    assert (settings["feedback"], settings["self_tune"]) == (False, True)


def test_a_threshold_is_where_runs_start_and_resume_refuses_another(bench: Bench) -> None:
    given = ("--limit", "2", "--threshold", "detector.threshold=0.25")
    assert bench.eval(*given)[0] == 0
    with RunStore.read(bench.folder / "run") as store:
        found = store.manifest.document["tools"]["sensitivities"]
        thresholds = [found[name] for name in ("detector.threshold", "matcher.threshold")]
    assert thresholds[0] == {"start": 0.25, "step": 0.1, "floor": 0.2, "fixed": 0.25}
    assert thresholds[1]["start"] == 0.5 and thresholds[1]["fixed"] is None
    assert bench.eval(*given, "--resume")[0] == 0
    code, _, err = bench.eval("--limit", "2", "--resume")
    assert code == 2 and "detector.threshold.start: 0.25 in the run, 0.5 now" in err


def test_a_threshold_reaches_the_program_with_tuning_and_without(bench: Bench) -> None:
    def first_trial(*more: str) -> Any:
        code, out, err = bench.run("--json", *more)
        assert code == 0, err
        return json.loads(out)["trials"][0]["thresholds"]

    assert first_trial()["detector.threshold"] == 0.5
    assert first_trial("--no-self-tune") == {"detector.threshold": 0.3, "matcher.threshold": 0.5}
    both = ("--threshold", "detector.threshold=0.1", "--threshold", "matcher.threshold=.9")
    expected = {"detector.threshold": 0.1, "matcher.threshold": 0.9}
    assert first_trial(*both) == first_trial(*both, "--no-self-tune") == expected


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("detector.treshold=0.2", "unknown threshold 'detector.treshold'; known: detector.thresh"),
        ("detector.threshold", "'detector.threshold': expected NAME=VALUE"),
        ("detector.threshold=low", "expected NAME=VALUE, as detector.threshold=0.2"),
        ("detector.threshold=nan", "expected NAME=VALUE"),
    ],
)
def test_a_wrong_threshold_is_one_line(bench: Bench, value: str, said: str) -> None:
    assert said in bench.refused("--threshold", value)


def test_another_bank_is_shown_and_resume_refuses_it(bench: Bench) -> None:
    bank = bench.bank("mine.jsonl")
    code, prompt, _ = bench.run("--show-prompt", "--bank", bank)
    assert code == 0 and "what color is the mug?" in prompt
    assert "mug" not in bench.run("--show-prompt", "--bank", bank, "--n-examples", "0")[1]
    assert bench.eval("--limit", "2", "--bank", bank)[0] == 0
    other = bench.bank("other.jsonl", "answer = 'blue'")
    code, _, err = bench.eval("--limit", "2", "--bank", other, "--resume")
    assert code == 2 and "bank hash: " in err
    assert bench.eval("--limit", "2", "--bank", bank, "--resume")[0] == 0


def test_a_bank_that_is_not_there(bench: Bench) -> None:
    assert "absent.jsonl: no such bank" in bench.refused("--bank", "absent.jsonl")


@pytest.mark.parametrize("more", [("--n-examples", "2"), ("--bank", "x.jsonl")])
def test_zero_shot_with_examples_is_a_contradiction(bench: Bench, more: tuple[str, str]) -> None:
    assert f"leave out {more[0]} or --zero-shot" in bench.refused("--zero-shot", *more)


def test_an_actor_gets_the_bank_and_the_thresholds(bench: Bench) -> None:
    choice = ProfileChoice(
        profile=str(bench.profile),
        examples_bank=str(bench.bank("mine.jsonl")),
        thresholds=("detector.threshold=0.25",),
    )
    answerer, document = pickle.loads(pickle.dumps(ProfileRecipe(choice)))()
    with answerer as reasoner:
        prompt = reasoner.prompt(bench.picture, "what color is it?")
        thresholds = reasoner.components.toolbox.settings.start_thresholds()
    assert "what color is the mug?" in prompt and thresholds["detector.threshold"] == 0.25
    assert document["tools"]["sensitivities"]["detector.threshold"]["fixed"] == 0.25


def test_ray_is_given_every_option_that_changes_the_profile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    @contextmanager
    def connected(*_: Any) -> Any:
        yield None

    def pool(settings: Any, *_: Any) -> Any:
        seen.append(settings.work.recipe)
        raise KeyboardInterrupt

    monkeypatch.setattr(on_ray, "connected", connected)
    share = type("Share", (), {"cpus": 1.0, "gpus": 0.0})
    monkeypatch.setattr(on_ray, "share_of", lambda *_: share)
    monkeypatch.setattr(on_ray, "WorkerPool", pool)
    bank = bench.bank("mine.jsonl")
    bench.eval("--engine", "ray", "--bank", bank, "--threshold", "matcher.threshold=0.4")
    (recipe,) = seen
    profile = profile_of(recipe.choice, recipe.examples)
    assert profile.document.bank == str(bank)
    assert profile.document.tools.sensitivities["matcher.threshold"].start == 0.4


def test_votes_are_told_on_stderr_and_counted_ahead(bench: Bench) -> None:
    code, out, err = bench.run("--votes", "5")
    color = out.strip()
    assert code == 0 and f"votes: 3 for {color} (the answer is of trial 1)" in err
    assert "language model: 3 to 10 programs" in bench.run("--votes", "5", "--dry-run")[1]
    assert "24 to 80 programs" in bench.eval("--votes", "5", "--dry-run")[1]


@pytest.mark.parametrize("command", ["run", "eval"])
def test_help_lists_what_may_be_chosen(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = viper(capsys, command, "--help")
    assert code == 0
    for words in ("--feedback / --from-scratch", "fixed|bm25|embeddings", "rising|falling"):
        assert words in out
    assert "--threshold NAME=VALUE" in out and "--votes N" in out and "--bank FILE" in out
