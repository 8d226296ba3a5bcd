"""``viper ace describe``: queries from a description, agreement as a label, resuming."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands.sheet_backends import ASKING
from tests.commands.test_bad_input import viper
from tests.evaluate.fake_backends import a_set
from viper.ace.bank import read_bank, write_bank
from viper.evaluate.runs.store import RunStore
from viper.schema import DEFAULT_API, Example

ROOT = Path(__file__).parents[2]
QUERIES = [
    "what color is thing 1?", "what color is thing 5?", "which thing is odd?", "what breaks?",
    "which thing is mostly agreed on?",
]  # fmt: skip


class Sheet:
    """A set of six pictures, a sheet about it, and a writer that takes notes."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.sheet, self.bank = folder / "sheet.txt", folder / "bank.jsonl"
        self.notes = folder / "notes.txt"
        self.sheet.write_text("Plain pictures of colored things.\n")
        self.set, self.profile = a_set(folder / "set", 24)
        text = self.profile.read_text().replace(
            "tests.evaluate.fake_backends:Writer", "tests.commands.sheet_backends:SheetWriter"
        )
        self.profile.write_text(text.replace('model = "writer"', f'model = "{self.notes}"'))

    def arguments(self, *more: str | Path, task: str = "question") -> list[str]:
        given = ["ace", "describe", "--data", self.set, "--task", task, "--profile", self.profile,
                 "--out", self.bank]  # fmt: skip
        return [str(one) for one in (*given, *more)]

    def make(self, *more: str | Path) -> tuple[int, str, str]:
        return viper(self.capsys, *self.arguments(self.sheet, "--queries", "5", *more))

    def asked(self) -> Counter[str]:
        """How many requests there were of each kind."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return Counter(line.split()[0] for line in lines)

    @property
    def kept(self) -> tuple[Example, ...]:
        return read_bank(self.bank).items

    @property
    def work(self) -> Path:
        return self.folder / "bank.jsonl.sheet"


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Sheet:
    return Sheet(tmp_path, capsys)


def test_what_programs_agree_on_is_kept_and_the_rest_explained(bench: Sheet) -> None:
    code, out, err = bench.make("--agree", "4")
    assert (code, out) == (0, f"{bench.bank}: 3 examples\n")
    assert "queries: 5 of 5 requested, in 1 replies" in err and "programs: 75 of 75, 60 gave" in err
    assert "kept: 3 of 5 queries; 1 no program gave an answer, 1 fewer than 4 agreed" in err
    assert bench.asked() == {"queries": 1, "program": 75}
    by_query = {one.query: one for one in bench.kept}
    assert set(by_query) == {QUERIES[0], QUERIES[1], QUERIES[4]}
    assert [by_query[QUERIES[n]].score for n in (0, 1, 4)] == [1.0, 1.0, 0.8]
    assert {one.program for one in bench.kept} == {ASKING}
    one = by_query[QUERIES[4]]
    assert (one.kind, one.set, one.split) == ("sheet", str(bench.set), "all")
    assert one.sample_id in {f"q{n}" for n in range(0, 24, 4)} and one.seed % 5
    assert (one.llm, one.task, one.api, bool(one.api_hash)) == (
        "fake-sheet", "question", DEFAULT_API, True,
    )  # fmt: skip


def test_every_program_has_a_seed_of_its_own(bench: Sheet) -> None:
    bench.make("--seed", "7", "--temperature", "0.6", "--media", "2", "--programs", "3")
    lines = [line.split(" ", 3) for line in bench.notes.read_text().splitlines()[1:]]
    drawn = sorted((query, int(draw)) for _, draw, _, query in lines)
    assert drawn == sorted((query, draw) for query in QUERIES for draw in range(7, 13))
    assert {warmth for _, _, warmth, _ in lines} == {"0.6"}


def test_choosing_anew_asks_nothing(bench: Sheet) -> None:
    bench.make("--agree", "4")
    before = bench.asked()
    code, _, err = bench.make("--agree", "5", "--keep", "1")
    assert code == 0 and bench.asked() == before and "75 of 75 are there already" in err
    assert "1 beyond --keep 1" in err and len(bench.kept) == 1


def test_the_queries_may_be_given(bench: Sheet) -> None:
    bench.make()
    queries, other = bench.work / "queries.jsonl", bench.folder / "other.jsonl"
    before = bench.asked()
    given = ("--queries-from", queries, "--out", other, "--queries", "2")
    code, _, err = viper(bench.capsys, *bench.arguments(*given))
    assert code == 0 and "queries: 2 of " in err and bench.asked()["queries"] == 1
    assert bench.asked()["program"] == before["program"] + 30
    assert {one.query for one in read_bank(other).items} == set(QUERIES[:2])


def test_a_budget_holds_and_a_larger_one_goes_on(bench: Sheet) -> None:
    code, _, err = bench.make("--budget", "17")
    assert code == 0 and bench.asked() == {"queries": 1, "program": 16}
    assert "the budget of 17 calls leaves no more" in err and "3 not asked any more" in err
    assert [one.query for one in bench.kept] == QUERIES[:1]
    bench.make("--budget", "17")
    assert bench.asked().total() == 17
    code, _, err = bench.make("--budget", "76")
    assert code == 0 and bench.asked() == {"queries": 1, "program": 75} and len(bench.kept) == 3


def test_a_budget_that_ends_among_the_queries_begins_no_run(bench: Sheet) -> None:
    more = ("--queries", "8", "--media", "1")
    code, out, err = bench.make(*more, "--budget", "2")
    assert (code, out) == (1, "") and "the budget of 2 calls leaves no more" in err
    assert bench.asked() == {"queries": 2} and not (bench.work / DEFAULT_API).exists()
    code, _, err = bench.make(*more, "--budget", "99")
    assert code == 0 and "queries: 5 of 8 requested, in 4 replies" in err
    assert bench.asked() == {"queries": 4, "program": 25} and len(bench.kept) == 3


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_it_goes_on_after_it_was_ended_and_asks_nothing_twice(
    bench: Sheet, end: signal.Signals
) -> None:
    (bench.folder / "hang").touch()
    line = bench.arguments(bench.sheet, "--queries", "5", "--workers", "1")
    process = subprocess.Popen(
        [sys.executable, "-m", "viper", *line],
        stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ},
    )  # fmt: skip
    assert process.stderr is not None
    said: list[str] = []
    while not any(one.startswith("15/75") for one in said):
        said.append(process.stderr.readline())
        assert process.poll() is None, said
    process.send_signal(end)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if end == signal.SIGINT else -9) and not bench.bank.exists()
    assert ("to go on: the same line again" in err) is (end == signal.SIGINT)
    (bench.folder / "hang").unlink()
    with RunStore.read(bench.work / DEFAULT_API) as store:
        stored = len(store.done())
    before = bench.asked()
    assert before["queries"] == 1 and 15 <= stored <= before["program"] <= stored + 1
    assert bench.make()[0] == 0
    assert bench.asked() == {"queries": 1, "program": before["program"] + 75 - stored}
    assert {one.query for one in bench.kept} == {QUERIES[0], QUERIES[1], QUERIES[4]}


def test_another_request_wants_another_place(bench: Sheet) -> None:
    bench.make()
    before = bench.bank.read_bytes()
    bench.sheet.write_text("Other tables.")
    code, _, err = bench.make()
    assert code == 2 and "sheet: " in err and "choose another --out or --work" in err
    assert bench.bank.read_bytes() == before and bench.asked()["queries"] == 1
    code, _, err = bench.make("--work", bench.folder / "other", "--media", "1")
    assert code == 0 and (bench.folder / "other" / DEFAULT_API / "samples.db").exists()


def test_a_model_that_only_writes_programs_is_told_what_to_do(bench: Sheet) -> None:
    (bench.folder / "reply").write_text("def execute_command(image):\n    return image\n")
    code, out, err = bench.make()
    last = err.splitlines()[-1]
    assert (code, out) == (2, "") and not bench.bank.exists() and not bench.work.exists()
    assert "fake-sheet wrote no usable query in 3 replies" in last and "--queries-from FILE" in last


def test_where_nothing_was_agreed_on_an_earlier_bank_stays(bench: Sheet) -> None:
    bench.bank.write_text("earlier\n")
    (bench.folder / "reply").write_text("what breaks?\nwhich thing is odd?\n")
    code, out, err = bench.make("--media", "1")
    assert (code, out) == (1, "") and "no program to keep; the bank is not written" in err
    assert (
        "queries: 2 of 5 requested, in 4 replies" in err and bench.bank.read_text() == "earlier\n"
    )


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "no SHEET.txt; name a description"),
        (["absent.txt"], "absent.txt: cannot be read as text"),
        (["--queries-from", "absent.txt"], "absent.txt: cannot be read as text"),
        (["sheet.txt", "--agree", "6"], "--agree 6 of --programs 5: no query can reach it"),
        (["sheet.txt", "--split", "nope"], "unknown split of"),
        (["sheet.txt", "--api", "nope"], "unknown API 'nope'"),
    ],
)
def test_a_wrong_call_is_one_line(
    bench: Sheet, more: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.folder)
    code, out, err = viper(bench.capsys, *bench.arguments(*more))
    (line,) = [line for line in err.splitlines() if line.startswith("viper: ")]
    assert (
        (code, out) == (2, "")
        and said in line
        and not bench.notes.exists()
        and not bench.bank.exists()
    )


def test_check_runs_the_query_that_an_example_was_kept_for(bench: Sheet) -> None:
    bench.make()
    wrong = replace(bench.kept[0], program="def execute_command(image):\n    return [][0]")
    write_bank(bench.bank, [*bench.kept, wrong])
    given = ("ace", "check", str(bench.bank), "--profile", str(bench.profile))
    code, out, _ = viper(bench.capsys, *given)
    lines = out.splitlines()
    assert code == 1 and lines[-1] == "3 ok, 1 broken, 0 not run"
    assert "answers; no label judges it" in lines[1] and "runtime: " in lines[4]


def test_the_folder_of_answers_is_a_run_like_others(bench: Sheet) -> None:
    bench.make()
    code, out, _ = viper(bench.capsys, "report", str(bench.work / DEFAULT_API))
    assert code == 0 and "answered" in out.splitlines()[0] and "0.800" in out.splitlines()[1]


@pytest.mark.models
def test_the_embedded_writer_answers_queries_that_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queries, bank = tmp_path / "queries.txt", tmp_path / "bank.jsonl"
    queries.write_text("the leftmost ball\nthe ring behind the cone\nthe big cube\n")
    given = ["ace", "describe", "--queries-from", str(queries), "--task", "ground", "--media", "1",
             "--programs", "2", "--agree", "2", "--out", str(bank)]  # fmt: skip
    code, out, err = viper(capsys, *given)
    assert code == 0 and "programs: 6 of 6" in err, (out, err)
    items = read_bank(bank).items
    assert items and {(one.set, one.split, one.kind) for one in items} == {
        ("world", "train", "sheet")
    }
    assert all(one.score == 1.0 for one in items)
    assert viper(capsys, "ace", "check", str(bank))[0] == 0


def test_help_says_what_to_do_with_writers_of_programs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = viper(capsys, "ace", "describe", "--help")
    assert code == 0 and "if the language model only writes programs" in " ".join(out.split())
