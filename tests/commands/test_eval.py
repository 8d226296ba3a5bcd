"""``viper eval`` on the command line, with fake models unless a test says otherwise."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.commands.test_bad_input import refused, viper
from tests.commands.test_run import WITHOUT_LIBRARIES
from tests.evaluate.fake_backends import PROFILE, a_set
from viper.commands.options import evaluation_of
from viper.errors import UnknownNameError
from viper.evaluate.runs.store import RunStore
from viper.plugins import offered

ROOT = Path(__file__).parents[2]


class Bench:
    """A set of questions with pictures, a profile of fake models, a folder for runs."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.set, self.profile = a_set(folder / "set", 24)
        self.run = folder / "run"

    def arguments(self, *more: str | Path) -> list[str]:
        given = ["eval", self.set, "--profile", self.profile, "--out", self.run, *more]
        return [str(one) for one in given]

    def eval(self, *more: str | Path) -> tuple[int, str, str]:
        return viper(self._capsys, *self.arguments(*more))

    def refused(self, *more: str | Path) -> str:
        return refused(self._capsys, *self.arguments(*more))

    def hang(self) -> Path:
        """From now on the writer hangs at question 5, until the file that is returned is gone."""
        flag = self.folder / "hang"
        flag.touch()
        text = self.profile.read_text().replace(":Writer", ":HangingWriter")
        self.profile.write_text(text.replace('model = "writer"', f'model = "{flag}"'))
        return flag

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run / "report.json").read_text())
        return found

    def start(self, *more: str | Path, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "viper", *self.arguments(*more)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **environment},
        )


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path, capsys)


def test_a_run_from_a_file_of_ones_own(bench: Bench) -> None:
    code, out, err = bench.eval()
    assert code == 0 and out.startswith("run") and "question.accuracy" in out
    assert f"run: {bench.run}" in err and "24/24" in err and "Traceback" not in err
    made = bench.report()
    assert made["complete"] and made["n"] == 24 and made["failures"] == {}
    assert made["figures"]["question.accuracy"]["value"] == pytest.approx(16 / 24)
    assert {path.name for path in bench.run.iterdir()} == {
        "run.json", "run.lock", "samples.db", "pace.jsonl", "report.json", "report.html",
        "traces",
    }  # fmt: skip
    assert made["timing"]["pace"]["answers"] == 24 and "answers a second (24 in" in out
    with RunStore.read(bench.run) as store:
        assert set(store.done()) == {(f"q{n}", 0) for n in range(24)}
        assert [row.sample_id for row in store.rows()] == [f"q{n}" for n in range(24)]


def test_json_lines_elsewhere_than_their_media(bench: Bench) -> None:
    lines = [
        {"media": "pictures/0.png", "query": "a thing?", "answer": ["red", "blue", "gray"]},
        {"media": ["pictures/0.png"], "query": "which?", "answer": 1, "options": ["x", "red"]},
    ]
    other = bench.folder / "elsewhere.jsonl"
    other.write_text("".join(json.dumps(line) + "\n" for line in lines))
    root, bench.set = bench.set.parent, other
    assert bench.eval("--root", root, "--json")[0] == 0
    made = bench.report()
    assert made["n"] == 2 and not made["failures"].get("media")


def test_json_is_the_report_and_nothing_else_on_stdout(bench: Bench) -> None:
    code, out, _ = bench.eval("--json", "--no-html")
    assert code == 0 and json.loads(out) == bench.report()
    assert not (bench.run / "report.html").exists()


def test_seeds_give_means_with_deviations(bench: Bench) -> None:
    code, out, _ = bench.eval("--seeds", "3", "--seed", "5", "--limit", "7", "--json")
    made = json.loads(out)
    assert code == 0 and made["n"] == made["expected"] == 21
    assert set(made["seeds"]["values"]) == {"5", "6", "7"} and made["seeds"]["deviation"] == 0.0
    assert any("means over 3 seeds" in note for note in made["notes"])
    with RunStore.read(bench.run) as store:
        ids = {sample_id for sample_id, _ in store.done()}
        assert len(ids) == 7 and set(store.done()) == {(one, s) for one in ids for s in (5, 6, 7)}


def test_a_seed_that_no_store_holds_is_refused(bench: Bench) -> None:
    code, _, err = bench.eval("--seed", str(10**20))
    assert code == 2 and "--seed" in err and not bench.run.exists()


def test_a_picture_that_is_gone_is_told_before_and_counted(bench: Bench) -> None:
    (bench.set.parent / "pictures" / "0.png").unlink()
    (bench.set.parent / "pictures" / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n cut")
    code, _, err = bench.eval("--json")
    made = bench.report()
    assert code == 0 and made["failures"]["media"]["count"] == 8
    assert made["failures"]["media"]["examples"] == ["q0", "q1", "q2"]
    assert "warning: " in err and "0.png" in err and "failed 8 (media 8)" in err
    assert made["figures"]["question.accuracy"]["value"] == pytest.approx(
        sum(n % 3 > 0 for n in range(24) if n // 4 not in (0, 3)) / 24
    )


def test_a_folder_with_a_run_needs_resume_and_is_not_touched(bench: Bench) -> None:
    bench.eval()
    before = (bench.run / "run.json").read_bytes()
    said = bench.refused()
    assert "holds a run; continue it with --resume" in said
    assert (bench.run / "run.json").read_bytes() == before


def test_a_folder_that_is_taken_is_told_before_anything_is_loaded(bench: Bench) -> None:
    bench.run.mkdir()
    (bench.run / "mine.txt").touch()
    bench.profile.write_text(PROFILE.format(vqa="x").replace("Answerer", "Absent"))
    assert "holds other files (mine.txt)" in bench.refused()


def test_resume_begins_a_run_where_there_is_none(bench: Bench) -> None:
    assert bench.eval("--resume")[0] == 0 and bench.report()["n"] == 24
    assert "--resume needs --out" in refused(
        bench._capsys, "eval", str(bench.set), "--profile", str(bench.profile), "--resume"
    )


def test_resume_of_a_complete_run_answers_nothing_and_reports_again(bench: Bench) -> None:
    bench.eval()
    before = bench.report()
    (bench.run / "report.json").unlink()
    code, _, err = bench.eval("--resume", "--workers", "3")
    after = bench.report()
    assert code == 0 and "24 of 24 are there already" in err and "score" not in err
    assert len(after["timing"].pop("sessions")) == 2
    del before["timing"]["sessions"]
    assert before == after


def test_resume_with_another_configuration_shows_the_differences(bench: Bench) -> None:
    bench.eval("--limit", "4")
    code, out, err = bench.eval("--resume", "--limit", "4", "--temperature", "0.4", "--trials", "5")
    lines = [line for line in err.splitlines() if not line.endswith("…")]
    assert code == 2 and out == ""
    assert lines[0].startswith(f"viper: {bench.run}: holds a run of another configuration")
    assert {line.strip() for line in lines[1:]} == {
        "trials: 2 in the run, 5 now",
        "temperature: 0.0 in the run, 0.4 now",
    }
    with RunStore.read(bench.run) as store:
        assert len(store.done()) == 4


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("--temperature 0.4", "temperature: 0.0 in the run, 0.4 now"),
        ("--seeds 2", "seeds: [0] in the run, [0,1] now"),
        ("--strategy vqa", "strategy: program in the run, vqa now"),
        ("--limit 3", "set limit: 4 in the run, 3 now"),
        ("--threshold detector.threshold=0.3", "detector.threshold"),
    ],
)
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_another_configuration_is_refused_before_a_model_is_loaded(
    bench: Bench, change: str, says: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = bench.profile.read_text()
    schedule = '[sensitivities]\n"detector.threshold" = { start = 0.2, floor = 0.1, step = 0.1 }\n'
    bench.profile.write_text(text + schedule)
    code, _, err = bench.eval("--limit", "4", "--no-html")
    assert code == 0, err

    def loads(*_: object) -> None:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr("viper.commands.evaluating.fetch_models", loads)
    monkeypatch.setattr("viper.commands.evaluating.on_ray", loads)
    monkeypatch.setattr("viper.evaluate.evaluation.model_ids", loads)
    code, out, err = bench.eval("--limit", "4", "--resume", "--engine", engine, *change.split())
    assert code == 2 and out == "" and "another configuration" in err and says in err


def test_a_run_is_extended_to_a_larger_limit(bench: Bench) -> None:
    bench.eval("--limit", "6", "--no-html")
    with RunStore.read(bench.run) as store:
        first = set(store.done())
    code, _, err = bench.eval("--resume", "--limit", "12", "--no-html")
    assert code == 0 and "6 of 12 are there already" in err
    extended, run = bench.report(), bench.run
    with RunStore.read(run) as store:
        assert (store.manifest.set.limit, store.manifest.set.samples) == (12, 12)
        names = [row.sample_id for row in store.rows()]
        assert first < set(store.done()) and len(store.sessions()) == 2
    bench.run = bench.folder / "at once"
    bench.eval("--limit", "12", "--no-html")
    assert {**extended, "timing": 0} == {**bench.report(), "timing": 0}
    with RunStore.read(bench.run) as store:
        assert [row.sample_id for row in store.rows()] == names
    bench.run = run
    assert bench.eval("--resume", "--no-html")[0] == 0 and bench.report()["n"] == 24


def test_a_run_of_other_samples_is_not_extended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a data set that draws other samples for another limit."""
    bench.eval("--limit", "6", "--no-html")
    before = (bench.run / "run.json").read_bytes()
    last = lambda samples, limit, seed: list(samples)[-limit:]  # noqa: E731
    monkeypatch.setattr("viper.evaluate.evaluation.choose", last)
    assert bench.refused("--resume", "--limit", "8") == (
        f"viper: {bench.run}: its 6 samples are not among the 8 of the new limit; "
        "choose another --out"
    )
    assert (bench.run / "run.json").read_bytes() == before


def test_a_budget_that_is_spent_exits_1_and_says_how_to_go_on(bench: Bench) -> None:
    text = bench.profile.read_text().replace(
        'model = "writer"', 'model = "writer"\noptions = { cost_usd = 0.5 }'
    )
    bench.profile.write_text(text)
    code, out, err = bench.eval("--budget-usd", "2", "--workers", "1")
    assert code == 1 and "not finished" in bench.report()["notes"][0]
    assert re.search("the budget of \\$2 is spent after [4-7] of 24 samples; .*--resume", err)
    code, _, err = bench.eval("--budget-usd", "50", "--resume")
    assert code == 0 and bench.report()["complete"] and "$12.00" in err


def test_a_dry_run_says_what_would_be_done_and_leaves_nothing(bench: Bench) -> None:
    code, out, err = bench.eval("--dry-run", "--seeds", "2", "--workers", "4")
    assert code == 0 and not bench.run.exists()
    assert "24 samples, metric mixed" in out and "tests.evaluate.fake_backends:Writer" in out
    assert "48 runs under 2 seeds, 4 at once; 48 to 96 programs" in out
    assert "24 runs under 1 seed," in bench.eval("--dry-run")[1]


@pytest.mark.parametrize("more", [["--help"], ["world", "--limit", "4", "--dry-run"]])
def test_help_and_a_dry_run_import_no_torch(more: list[str]) -> None:
    command = [sys.executable, "-c", WITHOUT_LIBRARIES, "eval", *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_help_imports_next_to_nothing() -> None:
    code = (
        "import sys; sys.modules.update(numpy=None, scipy=None, PIL=None, rich=None)\n"
        "from viper.cli import main\n"
        "main(['eval', '--help'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_tracker_is_shown_the_run(bench: Bench) -> None:
    pytest.importorskip("tensorboard")
    code, _, err = bench.eval("--limit", "8", "--track", f"tensorboard:{bench.folder / 'board'}")
    assert code == 0 and "switched off" not in err
    assert any((bench.folder / "board").rglob("events.out.tfevents*"))


@pytest.mark.parametrize(
    ("spec", "said"), [("nope:x", "unknown tracker 'nope'"), ("tensorboard:", "says not where to")]
)
def test_a_wrong_tracker_is_refused_before_the_run_begins(
    bench: Bench, spec: str, said: str
) -> None:
    assert said in bench.refused("--track", spec)
    assert not bench.run.exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--strategy", "luck"], "unknown strategy 'luck'; known: "),
        (["--split", "nope"], "unknown split of "),
        (["--api", "nope"], "nope"),
    ],
)
def test_a_wrong_call_is_one_line_and_begins_no_run(
    bench: Bench, more: list[str], said: str
) -> None:
    assert said in bench.refused(*more)
    assert not bench.run.exists()


def test_an_unknown_set_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown data set 'nope'; known: " in refused(capsys, "eval", "nope")


def test_a_deadline_fails_what_hangs_and_the_rest_goes_on(bench: Bench) -> None:
    bench.hang()
    process = bench.start("--deadline", "8", "--workers", "4")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    made = bench.report()
    assert made["n"] == 24 and made["failures"]["deadline"]["examples"] == ["q5"]
    assert made["figures"]["question.accuracy"]["value"] == pytest.approx(15 / 24)


def test_an_interrupt_keeps_the_rows_and_tells_how_to_go_on(bench: Bench) -> None:
    flag = bench.hang()
    process = bench.start("--workers", "2")
    assert process.stderr is not None
    said = []
    while not any(line.startswith("20/24") for line in said):
        said.append(process.stderr.readline())
        assert process.poll() is None, said
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    lines = [line for line in err.splitlines() if line and "score" not in line]
    assert (process.returncode, out) == (130, "")
    assert lines[-2:] == [
        f"stopped; to go on: the same line with --resume --out {bench.run}",
        "viper: interrupted",
    ], err
    with RunStore.read(bench.run) as store:
        stored = len(store.done())
    assert 20 <= stored < 24 and not (bench.run / "report.json").exists()
    flag.unlink()
    code, _, err = bench.eval("--resume")
    assert code == 0 and f"{stored} of 24 are there already" in err
    resumed, bench.run = bench.report(), bench.folder / "calm"
    bench.eval()
    assert {**resumed, "timing": 0} == {**bench.report(), "timing": 0}


def test_a_set_with_an_unknown_metric_ends_before_samples_are_read_or_models_load() -> None:
    choice = SimpleNamespace(root=None, split=None, seed=0, limit=None)
    with (
        offered("viper.datasets", {"odd": f"{__name__}:odd_set"}),
        pytest.raises(UnknownNameError, match="unknown metric 'gqaa'; .*did you mean gqa"),
    ):
        evaluation_of("odd", choice)


def odd_set() -> SimpleNamespace:
    facts = {"name": "odd", "splits": ("all",), "metric": "gqaa", "summary": ""}
    return SimpleNamespace(**facts, samples=list, check=list)
