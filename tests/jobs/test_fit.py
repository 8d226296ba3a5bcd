"""``viper fit`` and ``viper apply`` with a job, over a detector that reads pixels."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.commands.test_bad_input import refused, viper
from tests.forked import viper as forked_viper
from tests.jobs import job_backends as shelf
from viper.cli import main
from viper.commands.fit import JobChoice, job_profile, show_runs
from viper.data.sample import Sample
from viper.errors import UnknownNameError
from viper.evaluate.sample_result import SampleResult
from viper.jobs.candidates import Candidate
from viper.jobs.job import Job, mark_of, read_job
from viper.jobs.outcomes import Outcome, Outcomes
from viper.jobs.review import answered
from viper.profiles import load_profile
from viper.profiles.exported import ExportedProgram
from viper.storage.json_lines import dumps

Capture = pytest.CaptureFixture[str]


class Bench:
    """A folder with labelled pictures, a profile and a job to write."""

    def __init__(self, folder: Path, capsys: Capture | None, count: int = 24, **more: bool) -> None:
        self.folder, self._capsys = folder, capsys
        self.answers = shelf.pictures(folder / "pictures", count, **more)
        self.table = shelf.table(folder / "labels.csv", self.answers)
        self.profile, self.job = folder / "shelf.toml", folder / "job"
        self.profile.write_text(shelf.PROFILE)

    def arguments(self, *more: str | Path) -> list[str]:
        given: list[str | Path] = ["fit", self.table, "--query", shelf.QUERY, "--out", self.job]
        own = [*given, "--profile", self.profile, "--requests", "4", *more]
        return [str(each) for each in own]

    def tried(self, name: str) -> str:
        """Return what was tried so far."""
        return "".join(path.read_text() for path in self.job.glob(f"tried-*/{name}.jsonl"))

    def fit(self, *more: str | Path) -> tuple[int, str, str]:
        return self.viper(*self.arguments(*more))

    def viper(self, *arguments: str | Path) -> tuple[int, str, str]:
        assert self._capsys is not None
        return viper(self._capsys, *map(str, arguments))

    def refused(self, *arguments: str | Path) -> str:
        assert self._capsys is not None
        return refused(self._capsys, *map(str, arguments))


@pytest.fixture
def bench(tmp_path: Path, capsys: Capture) -> Bench:
    return Bench(tmp_path, capsys)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that tests copy."""
    bench = Bench(tmp_path_factory.mktemp("fitted"), None)
    with pytest.raises(SystemExit):
        main(bench.arguments("--risk", "0.1"))
    return bench.job


@pytest.fixture
def ready(bench: Bench, fitted: Path) -> Bench:
    """A bench whose job is fitted."""
    shutil.copytree(fitted, bench.job)
    return bench


def test_labels_say_what_the_words_do_not(bench: Bench) -> None:
    code, out, _ = bench.fit("--risk", "0.1")
    assert code == 0
    record = read_job(bench.job)
    assert "count(scene, 'lamp')" in record.kept[0].program
    assert record.estimate.value == 1.0
    assert record.baselines["zero-shot program"].value < 0.8
    assert record.promise is not None
    assert record.promise.certified
    assert "count(scene, 'lamp')" in out
    exported = ExportedProgram.read((bench.job / "program.py").read_text())
    assert exported is not None
    assert exported.program == record.kept[0].program
    page = (bench.job / "report.html").read_text()
    assert shelf.QUERY in page
    assert (bench.job / "example.html").is_file()


def test_a_job_answers_about_new_pictures_without_the_writer(ready: Bench) -> None:
    answers = shelf.pictures(ready.folder / "new", 20, seed=5)
    before = shelf.Writer.asked
    out = ready.folder / "answers.csv"
    code, _, err = ready.viper("apply", ready.job, ready.folder / "new", "-o", out, "--trust")
    assert code == 0, err
    assert shelf.Writer.asked == before
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["file"]: row["answer"] for row in rows} == answers
    assert all(0.5 < float(row["confidence"]) <= 1 for row in rows)


def test_the_same_seed_gives_the_same_job(bench: Bench, tmp_path: Path) -> None:
    bench.fit()
    first = (bench.job / "job.json").read_text()
    shutil.rmtree(bench.job)
    bench.fit()
    assert (bench.job / "job.json").read_text() == first


def test_no_run_and_no_request_is_repeated(bench: Bench) -> None:
    bench.fit()
    asked, rows = shelf.Writer.asked, bench.tried("outcomes").count("{")
    bench.fit()
    assert shelf.Writer.asked == asked
    assert bench.tried("outcomes").count("{") == rows


def test_another_profile_is_asked_anew(bench: Bench) -> None:
    bench.fit()
    asked = shelf.Writer.asked
    bench.profile.write_text(shelf.PROFILE.replace("start = 0.5", "start = 0.4"))
    bench.fit()
    assert shelf.Writer.asked > asked
    assert len([*bench.job.glob("tried-*")]) == 2


def test_a_fit_that_is_killed_goes_on_to_the_same_job(bench: Bench) -> None:
    bench.fit()
    whole = json.loads((bench.job / "job.json").read_text())
    shutil.rmtree(bench.job)
    draw = Random(7)
    for _ in range(3):
        process = subprocess.Popen(
            forked_viper(*bench.arguments()),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # until a random number of outcomes is there, or it ends first
        wanted = draw.randrange(1, 300)
        while process.poll() is None:
            if bench.tried("outcomes").count("{") >= wanted:
                with suppress(ProcessLookupError):
                    os.kill(int((bench.job / ".lock").read_text()), signal.SIGKILL)
                break
            time.sleep(0.02)
        process.wait(30)
    code, _, err = bench.fit()
    assert code == 0, err
    assert json.loads((bench.job / "job.json").read_text()) == whole
    with Job(bench.job) as job:
        assert len(job.labels()) == len(bench.answers)


def test_a_writer_that_converses_rewrites_from_wrong_cases(bench: Bench) -> None:
    bench.profile.write_text(shelf.PROFILE.replace("compact", "chat"))
    code, _, err = bench.fit("--rounds", "2")
    assert code == 0, err
    assert "rewriting the best program, round 1" in err
    outcomes = bench.tried("outcomes")
    replies = [json.loads(line) for line in bench.tried("replies").splitlines()]
    rewritten = [reply for reply in replies if "-round-" in reply["request"]]
    assert "exists('lamp')" in rewritten[0]["program"]
    assert Candidate(rewritten[0]["program"]).id in outcomes
    asked = shelf.Writer.asked
    bench.fit("--rounds", "2")
    assert shelf.Writer.asked == asked
    # other labels are shown now, so the same program is rewritten anew
    answers = bench.answers | shelf.pictures(bench.folder / "pictures", 30)
    shelf.table(bench.table, answers)
    bench.fit("--rounds", "2")
    again = {reply for reply in bench.tried("replies").splitlines() if "-round-" in reply}
    assert len(again) > len(rewritten)


def test_a_fit_without_a_writer_finds_rules_alone(bench: Bench) -> None:
    before = shelf.Writer.asked
    code, _, _ = bench.fit("--requests", "0")
    assert (code, shelf.Writer.asked) == (0, before)
    assert "zero-shot program" not in read_job(bench.job).baselines


def test_what_few_labels_cannot_promise_is_said(tmp_path: Path, capsys: Capture) -> None:
    bench = Bench(tmp_path, capsys, count=20)
    _, out, _ = bench.fit("--risk", "0.05")
    assert "not certifiable and needs at least 25 more labels" in out
    promise = read_job(bench.job).promise
    assert promise is not None
    assert (promise.certified, promise.more) == (False, 25)


def test_a_risk_that_no_confidence_keeps_withholds_every_answer(
    tmp_path: Path, capsys: Capture
) -> None:
    bench = Bench(tmp_path, capsys, count=20)
    by_chance = {name: ("yes", "no")[n // 2 % 2] for n, name in enumerate(sorted(bench.answers))}
    shelf.table(bench.table, by_chance)
    _, out, err = bench.fit("--risk", "0.05")
    assert "all are withheld" in out, err
    table = tmp_path / "answers.csv"
    _, _, err = bench.viper("apply", bench.job, bench.folder / "pictures", "--trust", "-o", table)
    rows = table.read_text().splitlines()[1:]
    assert len(rows) == 20 and all("doubtful" in row for row in rows), err
    assert "20 of 20 answers are doubtful" in err and "were expected" not in err


def test_a_simpler_way_that_is_as_good_is_named(tmp_path: Path, capsys: Capture) -> None:
    bench = Bench(tmp_path, capsys)
    alone = dict.fromkeys(list(bench.answers)[:21], "no") | dict.fromkeys(
        list(bench.answers)[21:], "yes"
    )
    shelf.table(bench.table, alone)
    code, out, err = bench.fit()
    assert code == 0, err
    assert "the commonest answer would be" in out


def test_the_time_that_is_over_still_leaves_a_whole_job(ready: Bench) -> None:
    ready.fit("--requests", "0")  # its measures are there, so a fit without time has evidence
    code, _, err = ready.fit("--requests", "0", "--minutes", "0.000001")
    assert code == 0, err
    assert read_job(ready.job).estimate.value == 1.0


def test_unusual_inputs_are_warned_about(ready: Bench) -> None:
    new = ready.folder / "new"
    new.mkdir()
    for number in range(12):
        shelf.picture(new / f"{number}.png", 1, 1)
    from PIL import Image

    for path in new.iterdir():
        Image.open(path).convert("RGB").point(lambda value: 255 - value).save(path)
    out = ready.folder / "answers.csv"
    _, _, err = ready.viper("apply", ready.job, new, "-o", out, "--trust")
    assert "12 of 12 inputs look unlike the labelled ones" in err


def test_doubtful_answers_are_withheld(ready: Bench) -> None:
    record = json.loads((ready.job / "job.json").read_text())
    record["promise"]["limit"] = 1.01
    (ready.job / "job.json").write_text(json.dumps(record))
    out = ready.folder / "answers.jsonl"
    code, _, err = ready.viper("apply", ready.job, ready.folder / "pictures", "-o", out, "--trust")
    assert code == 0
    assert "24 of 24 answers are doubtful and withheld" in err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {row["failure"] for row in rows} == {"doubtful"}
    assert {row["answer"] for row in rows} == {None}


def test_suggestions_are_a_table_to_fill_in(bench: Bench) -> None:
    code, out, err = bench.viper("fit", "--suggest", "5", bench.folder / "pictures")
    rows = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert len({row["media"] for row in rows}) == 5
    pictures = bench.folder / "pictures"
    assert all((pictures / row["media"]).is_file() and row["answer"] == "" for row in rows)
    assert f"--root {pictures}" in err
    filled = [f"{row['media']},{bench.answers[row['media']]}" for row in rows]
    bench.table.write_text("\n".join(["media,answer", *filled]) + "\n")
    assert "5 labelled cases" in bench.refused(*bench.arguments("--root", pictures))


def test_questions_of_one_form_share_a_program(tmp_path: Path, capsys: Capture) -> None:
    bench = Bench(tmp_path, capsys)
    lines = ["media,query,answer"]
    for number, name in enumerate(bench.answers):
        first = shelf.Lamps("").encode([__import__("numpy").array(_pixels(tmp_path, name))])[0]
        noun, column = (("jar", 1), ("lamp", 0))[number % 2]
        answer = "yes" if first[column] else "no"
        lines.append(f"pictures/{name},is there a {noun} in it?,{answer}")
    bench.table.write_text("\n".join(lines) + "\n")
    code, _, _ = bench.fit()
    record = read_job(bench.job)
    assert code == 0
    assert "question.removeprefix('is there a')" in record.kept[0].program
    assert record.estimate.value == 1.0


def _pixels(folder: Path, name: str) -> list[list[list[int]]]:
    from PIL import Image

    picture = Image.open(folder / "pictures" / name)
    return [[list(picture.getpixel((0, 0)))]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda b: shelf.table(b.table, dict(list(b.answers.items())[:7])), "7 labelled cases"),
        (lambda b: shelf.table(b.table, dict.fromkeys(b.answers, "yes")), "24 labels are 'yes'"),
        (lambda b: b.table.write_text(b.table.read_text() + "pictures/000.png,yes\n"),
         "000.png is 'no', 000.png 'yes'"),
        (lambda b: (b.folder / "pictures" / "003.png").unlink(), "1 files are missing"),
        (lambda b: b.table.write_text("media,answer\n"), "no samples"),
        (lambda b: (b.job.mkdir(), (b.job / "x").write_text("")), "no job; choose another"),
        (lambda b: b.table.unlink(), "no such file"),
    ],
)  # fmt: skip
def test_bad_labels_are_one_line(bench: Bench, change: object, said: str) -> None:
    change(bench)  # type: ignore[operator]
    assert said in bench.refused(*bench.arguments())


def test_a_job_in_use_or_of_another_version_is_refused(ready: Bench) -> None:
    with Job(ready.job):
        code, _, err = ready.fit()
        assert (code, "this job is being written by process" in err) == (1, True)
    record = json.loads((ready.job / "job.json").read_text())
    (ready.job / "job.json").write_text(json.dumps({**record, "format": 0}))
    out = ready.folder / "answers.csv"
    apply = ("apply", ready.job, ready.folder / "pictures", "-o", out)
    assert "in format 0; this version reads 2" in ready.refused(*apply)
    (ready.job / "job.json").write_text(dumps({"format": 2}))
    assert "no record of viper fit" in ready.refused(*apply)
    other = {**record["kept"][0], "votes": 0.0}  # as earlier versions stored a vote below .00005
    (ready.job / "job.json").write_text(json.dumps({**record, "kept": [*record["kept"], other]}))
    assert read_job(ready.job).kept[-1].votes == 0
    (ready.job / "job.json").write_text(json.dumps({**record, "kept": []}))
    assert "no program with a weight above 0" in ready.refused(*apply)
    (ready.job / "job.json").unlink()
    assert "its fit has not ended" in ready.refused(*apply)


def test_a_job_of_a_stranger_runs_nothing_outside_the_sandbox(ready: Bench) -> None:
    out = ready.folder / "answers.csv"
    said = ready.refused("apply", ready.job, ready.folder / "pictures", "-o", out)
    assert "tests.jobs.job_backends" in said
    assert "--trust" in said


def test_a_link_in_a_job_is_not_followed(ready: Bench, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (ready.job / ".lock").unlink(missing_ok=True)
    (ready.job / ".lock").symlink_to(victim)
    assert "is a link, which no job has" in ready.refused(*ready.arguments())
    assert victim.read_text() == "mine"


def test_labels_and_not_the_words_say_what_kind_an_answer_has(bench: Bench) -> None:
    bench.profile.write_text(shelf.PROFILE.replace("[run]", '[run]\non_misfit = "refuse"'))
    words = {"yes": "bright", "no": "dark"}
    shelf.table(bench.table, {name: words[answer] for name, answer in bench.answers.items()})
    code, _, err = bench.fit()
    assert code == 0, err
    out = bench.folder / "answers.csv"
    code, _, err = bench.viper("apply", bench.job, bench.folder / "pictures", "-o", out, "--trust")
    assert code == 0, err
    with out.open(newline="") as file:
        found = {row["file"]: row["answer"] for row in csv.DictReader(file)}
    assert found == {name: words[answer] for name, answer in bench.answers.items()}


def test_numbers_are_counted_whatever_is_asked(bench: Bench) -> None:
    lines = ["media,query,answer"]
    for name in bench.answers:
        lamps = _pixels(bench.folder, name)[0][0][0]
        lines.append(f"pictures/{name},how many are lit?,{lamps}")
    bench.table.write_text("\n".join(lines) + "\n")
    code, out, _ = bench.fit("--requests", "0")
    assert code == 0
    assert "return str(count(scene, 'lamp'))" in out


def test_where_nothing_is_measured_and_written_the_commonest_answer_is_kept(bench: Bench) -> None:
    for name in bench.answers:
        shelf.picture(bench.folder / "pictures" / name, 1, 1)
    code, out, _ = bench.fit("--requests", "0")
    assert code == 0
    assert read_job(bench.job).estimate.value <= 0.6
    assert "commonest answer would be as good" in out


def test_a_job_keeps_its_risk_and_the_start_of_its_thresholds(ready: Bench) -> None:
    script = (ready.job / "program.py").read_text()
    exported = ExportedProgram.read(script)
    assert exported is not None
    moved = replace(exported, thresholds={"detector.threshold": 0.3})
    (ready.job / "program.py").write_text(moved.script("program.py"))
    profile = job_profile(ready.job, JobChoice(trust=True))
    assert profile.document.tools.sensitivities["detector.threshold"].start == 0.5
    code, _, err = ready.viper("fit", "--out", ready.job, "--trust", "--requests", "4")
    assert code == 0, err
    assert read_job(ready.job).settings.risk == 0.1


def test_nothing_that_another_api_or_an_earlier_routine_gave_is_used_again(tmp_path: Path) -> None:
    """Neither programs that were written for it, nor what came of them."""
    profile, mine = load_profile("embedded"), tmp_path / "mine.py"
    text = 'from viper import routine\n\n@routine\ndef part(x: int) -> float:\n    "A part."\n'
    text += "    return x / NUMBER\n"
    marks = [mark_of(profile), mark_of(replace(profile, api="abstract+long_video"))]
    for number in (2, 3):
        mine.write_text(text.replace("NUMBER", str(number)))
        marks.append(mark_of(replace(profile, api=f"abstract+{mine}")))
    assert len({*marks}) == 4
    assert mark_of(replace(profile, api=profile.document.run.api)) == marks[0]


def test_a_fault_of_the_machine_is_not_kept_as_the_programs(tmp_path: Path) -> None:
    rows = [Outcome("a", "one", failure="model"), Outcome("a", "two", failure="runtime_error")]
    (tmp_path / "outcomes.jsonl").write_text("".join(dumps(row) + "\n" for row in rows))
    outcomes = Outcomes(tmp_path)
    assert not outcomes.has("a", "one")
    assert outcomes.has("a", "two")
    outcomes.close()


def test_what_killed_an_actor_is_run_again_and_what_killed_its_process_is_not(
    tmp_path: Path,
) -> None:
    outcomes = Outcomes(tmp_path)
    for case, program in (("lost", None), ("deadly", shelf.LIT)):
        sample = Sample(f"c/{case}", "", "question", "image", None, load=list)
        outcomes.add(0, SampleResult.of(sample, 0, seconds=0.0, failure="crash", program=program),
                     None)  # fmt: skip
    outcomes.close()
    again = Outcomes(tmp_path)
    assert again.has("c", "deadly") and not again.has("c", "lost")
    again.close()


def test_a_profile_without_a_threshold_of_the_job_is_refused(ready: Bench) -> None:
    """Its answers would all count as wrong."""
    record = read_job(ready.job)
    other = ready.folder / "other.toml"
    other.write_text(shelf.PROFILE.replace("detector.threshold", "like.threshold"))
    profile = load_profile(str(other))
    kept = replace(record.kept[0], thresholds={"detector.threshold": 0.2})
    with Job(ready.job) as job, pytest.raises(UnknownNameError, match="threshold"):
        answered(job, replace(record, kept=(kept,)), profile, job.labels(), show_runs)
