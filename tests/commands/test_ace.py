"""``viper ace``: mining that goes on where it stopped, looking at banks, merging, checking them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_bad_input import refused, viper
from tests.evaluate.fake_backends import a_set
from viper.ace.bank import read_bank, write_bank
from viper.evaluate.runs.store import RunStore
from viper.schema import Example

ROOT = Path(__file__).parents[2]
RIGHT = {f"q{n}" for n in range(24) if n % 3}


class Mine:
    """A set of questions, every third of which is answered wrong, and a writer that takes notes."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.set, self.profile = a_set(folder / "set", 24)
        self.bank, self.notes = folder / "bank.jsonl", folder / "notes.txt"
        text = self.profile.read_text().replace(
            "tests.evaluate.fake_backends:Writer", "tests.commands.ace_backends:NotingWriter"
        )
        self.profile.write_text(text.replace('model = "writer"', f'model = "{self.notes}"'))

    def arguments(self, *more: str | Path) -> list[str]:
        given = ["ace", "mine", "--data", self.set, "--profile", self.profile, "--out", self.bank]
        return [str(one) for one in (*given, "--api", "abstract", *more)]

    def mine(self, *more: str | Path) -> tuple[int, str, str]:
        return viper(self.capsys, *self.arguments(*more))

    def asked(self) -> list[str]:
        """The things that the writer was asked about, in order."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [line.split("thing ")[1].split("?")[0] for line in lines]

    @property
    def kept(self) -> tuple[Example, ...]:
        return read_bank(self.bank).items

    def check(self, *more: str | Path) -> tuple[int, dict[int, dict[str, Any]]]:
        given = ("ace", "check", self.bank, "--profile", self.profile, "--json", *more)
        code, out, _ = viper(self.capsys, *[str(one) for one in given])
        return code, {one["number"]: one for one in json.loads(out)}


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Mine:
    return Mine(tmp_path, capsys)


def test_what_was_right_becomes_the_bank(bench: Mine) -> None:
    code, out, err = bench.mine("--keep", "5")
    assert code == 0 and out == f"{bench.bank}: 5 examples\n" and "24 of 24 programs" in err
    assert sorted(bench.asked()) == sorted(str(n) for n in range(24))
    assert {one.sample_id for one in bench.kept} < RIGHT and len(bench.kept) == 5
    one = bench.kept[0]
    assert (one.set, one.split, one.llm, one.score) == (str(bench.set), "all", "fake-noting", 1.0)
    assert {path.name for path in bench.folder.iterdir()} == {
        "set", "bank.jsonl", "bank.jsonl.mining", "notes.txt",
    }  # fmt: skip


def test_choosing_anew_asks_nothing(bench: Mine) -> None:
    bench.mine("--keep", "5")
    code, _, err = bench.mine("--keep", "99")
    assert code == 0 and {one.sample_id for one in bench.kept} == RIGHT
    assert "24 of 24 are there already" in err and len(bench.asked()) == 24
    assert bench.mine("--keep", "99", "--random-keep")[0] == 0
    assert {one.sample_id for one in bench.kept} == {f"q{n}" for n in range(24)}
    assert len(bench.asked()) == 24


def test_other_shots_want_another_place(bench: Mine) -> None:
    bench.mine("--shots", "4")
    before = bench.bank.read_bytes()
    code, _, err = bench.mine("--shots", "5")
    assert code == 2 and "set limit: 4 in the run, 5 now" in err
    assert bench.bank.read_bytes() == before
    assert bench.mine("--shots", "5", "--work", bench.folder / "other")[0] == 0
    assert (bench.folder / "other" / "abstract" / "samples.db").exists()


def test_a_budget_holds_and_a_larger_one_goes_on(bench: Mine) -> None:
    code, _, err = bench.mine("--budget", "7")
    assert code == 0 and len(bench.asked()) == 7
    assert "the budget of 7 calls leaves no more for abstract" in err and "7 of 24" in err
    assert 0 < len(bench.kept) <= 7
    bench.mine("--budget", "7")
    assert len(bench.asked()) == 7
    assert bench.mine("--budget", "24", "--keep", "99")[0] == 0
    assert sorted(bench.asked()) == sorted(str(n) for n in range(24)) and len(bench.kept) == 16


def test_a_budget_is_for_all_apis_together(bench: Mine) -> None:
    code, _, err = bench.mine("--api", "vipergpt", "--budget", "30", "--keep", "99")
    assert code == 0 and len(bench.asked()) == 30 and "leaves no more for vipergpt" in err
    assert sum(one.api == "abstract" for one in bench.kept) == 16
    assert 0 < sum(one.api == "vipergpt" for one in bench.kept) <= 6


def test_several_programs_a_sample_make_one_example(bench: Mine) -> None:
    code, _, _ = bench.mine("--shots", "6", "--programs", "3", "--agree", "--seed", "4")
    assert code == 0 and len(bench.asked()) == 18
    assert " 0.4 " in bench.notes.read_text()
    assert len({one.sample_id for one in bench.kept}) == len(bench.kept)
    with RunStore.read(bench.folder / "bank.jsonl.mining" / "abstract") as store:
        assert {seed for _, seed in store.done()} == {4, 5, 6}


def test_chosen_samples(bench: Mine) -> None:
    (bench.folder / "ids").write_text("q1\nq3\nq11\n")
    assert bench.mine("--ids", bench.folder / "ids")[0] == 0
    assert sorted(bench.asked()) == ["1", "11", "3"]
    assert {one.sample_id for one in bench.kept} == {"q1", "q11"}


def test_no_prompt_of_mining_shows_an_example(bench: Mine) -> None:
    bench.mine("--keep", "8")
    text = bench.profile.read_text().replace("[run]", f'[run]\nbank = "{bench.bank}"\nexamples = 4')
    bench.profile.write_text(text)
    first = [len(line) for line in bench.notes.read_text().splitlines()]
    bench.notes.unlink()
    bench.mine("--work", bench.folder / "again")
    assert sorted(len(line) for line in bench.notes.read_text().splitlines()) == sorted(first)


def test_where_nothing_was_right_an_earlier_bank_stays(bench: Mine) -> None:
    bench.bank.write_text("earlier\n")
    code, out, err = bench.mine("--ids", "q0,q3")
    assert (code, out) == (1, "") and "no program to keep; the bank is not written" in err
    assert bench.bank.read_text() == "earlier\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--ids", "q1,q99"], "has no sample q99"),
        (["--split", "nope"], "unknown split of"),
        (["--agree", "--random-keep"], "choose one"),
        (["--programs", "2", "--temperature", "0"], "2 times the same one"),
        (["--api", "nope"], "unknown API 'nope'"),
    ],
)
def test_a_wrong_call_is_one_line(bench: Mine, more: list[str], said: str) -> None:
    code, out, err = bench.mine(*more)
    said_lines = [line for line in err.splitlines() if line.startswith("viper: ")]
    assert (code, out) == (2, "") and said in said_lines[-1] and "Traceback" not in err
    assert not bench.bank.exists()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_mining_goes_on_after_it_was_ended_and_asks_nothing_twice(
    bench: Mine, end: signal.Signals
) -> None:
    (bench.folder / "hang").touch()
    process = subprocess.Popen(
        [sys.executable, "-m", "viper", *bench.arguments("--workers", "2", "--keep", "99")],
        stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ},
    )  # fmt: skip
    assert process.stderr is not None
    said: list[str] = []
    while not any(line.startswith("22/24") for line in said):
        said.append(process.stderr.readline())
        assert process.poll() is None, said
    process.send_signal(end)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if end == signal.SIGINT else -9) and not bench.bank.exists()
    assert ("to go on: the same line again" in err) is (end == signal.SIGINT)
    (bench.folder / "hang").unlink()
    before = set(bench.asked())
    with RunStore.read(bench.folder / "bank.jsonl.mining" / "abstract") as store:
        stored = len(store.done())
    assert bench.mine("--keep", "99")[0] == 0
    assert {one.sample_id for one in bench.kept} == RIGHT
    again = bench.asked()[len(before) :]
    assert len(again) == 24 - stored <= 2 and "5" in again


def test_show_lists_and_prints(bench: Mine) -> None:
    bench.mine("--keep", "3")
    code, out, _ = viper(bench.capsys, "ace", "show", str(bench.bank))
    lines = out.splitlines()
    assert code == 0 and len(lines) == 4 and lines[0].split()[:4] == ["n", "task", "api", "kind"]
    assert lines[1].startswith("1  question  abstract") and "what color is thing" in lines[1]
    code, out, _ = viper(bench.capsys, "ace", "show", str(bench.bank), "--programs")
    assert out.count("    def execute_command(") == 3 and "by fake-noting" in out
    code, out, _ = viper(bench.capsys, "ace", "show", str(bench.bank), "--json")
    assert [one["sample_id"] for one in json.loads(out)] == [e.sample_id for e in bench.kept]
    assert "no such bank" in refused(bench.capsys, "ace", "show", str(bench.folder / "none"))


def test_merge_writes_each_example_once(bench: Mine) -> None:
    bench.mine("--keep", "3")
    other = bench.folder / "other.jsonl"
    write_bank(other, [*bench.kept, replace(bench.kept[0], sample_id="new", score=0.9)])
    arguments = ["ace", "merge", str(bench.bank), str(other), "--out", str(other)]
    code, out, _ = viper(bench.capsys, *arguments)
    assert (code, out) == (0, f"{other}: 4 of 7 examples\n")
    assert read_bank(other).items[-1].sample_id == "new"
    assert viper(bench.capsys, *arguments, "--keep", "2")[1] == f"{other}: 2 of 7 examples\n"


ROUTINES = '''from viper import ImagePatch, routine


@routine(["question"])
def ask_plainly(image_patch: ImagePatch, question: str) -> str:
    """Returns the answer to a question.

    Example:
        # what is it?
        return ask_plainly(image_patch, "what is it?")
    """
    return image_patch.simple_query(question)
'''


def test_check_names_every_broken_example(bench: Mine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bench.folder)
    (bench.folder / "own.py").write_text(ROUTINES)
    bench.mine("--keep", "1", "--ids", "q1,q2")
    good = bench.kept[0]
    head = "def execute_command(image, question):\n    "
    own = replace(
        good,
        api="abstract+own.py",
        program=f"{head}return ask_plainly(ImagePatch(image), question)",
    )
    items = [
        good,
        own,
        replace(good, program=f"{head}return [][0]"),
        replace(good, program=f"{head}return 'violet'"),
        replace(good, program="def ("),
        replace(good, sample_id="q99"),
        replace(good, program=f"{head}return 'violet'", score=0.0),
        replace(good, api="abstract+gone.py"),
        replace(good, program=f"{head}return 'violet'", polarity="incorrect"),
    ]
    write_bank(bench.bank, items)
    asked = len(bench.asked())
    code, found = bench.check("--out", bench.folder / "fixed.jsonl", "--trust")
    assert code == 1 and len(bench.asked()) == asked
    states = {number: one["state"] for number, one in found.items()}
    assert states == {
        1: "ok", 2: "ok", 3: "broken", 4: "broken", 5: "broken", 6: "not run", 7: "ok",
        8: "broken", 9: "not run",
    }  # fmt: skip
    assert found[3]["why"].startswith("runtime: ") and "0.00, 1.00 when" in found[4]["why"]
    assert found[5]["why"].startswith("syntax at line 1") and "q99" in found[6]["why"]
    assert "gone.py" in found[8]["why"]
    fixed = read_bank(bench.folder / "fixed.jsonl").items
    assert fixed == tuple(items[n] for n in (0, 1, 5, 6, 8))

    (bench.folder / "own.py").write_text(ROUTINES.replace("ask_plainly", "ask_simply"))
    code, found = bench.check("--trust")
    assert found[1]["state"] == "ok" and found[2]["state"] == "broken"
    assert found[2]["why"] == "calls ask_plainly, which no API has; near: ask_simply"


def test_check_judges_a_bank_by_another_api(bench: Mine) -> None:
    bench.mine("--keep", "1", "--ids", "q1,q2")
    (good,) = bench.kept
    head = "def execute_command(image, question):\n    "
    code = f"{head}return sort_patches_left_to_right([]) or 'tan'"
    sorting = replace(good, program=code, score=0.0)
    write_bank(bench.bank, [good, sorting])
    code, found = bench.check()
    assert code == 0 and {one["state"] for one in found.values()} == {"ok"}
    code, found = bench.check("--api", "vipergpt", "--out", bench.folder / "other.jsonl")
    assert code == 1 and found[1]["state"] == "ok" and found[2]["state"] == "broken"
    assert found[2]["why"] == "calls sort_patches_left_to_right, which vipergpt does not list"
    assert [one.api for one in read_bank(bench.folder / "other.jsonl").items] == ["vipergpt"]


def test_check_reads_only_where_the_samples_are_not_known(bench: Mine) -> None:
    bench.mine("--keep", "2")
    write_bank(bench.bank, [replace(one, set="", split="") for one in bench.kept])
    code, found = bench.check()
    assert code == 0 and {one["why"] for one in found.values()} == {
        "no data set is known; give --data"
    }
    code, found = bench.check("--data", bench.set)
    assert code == 0 and {one["state"] for one in found.values()} == {"ok"}
    (bench.set.parent / "pictures" / "0.png").unlink()
    write_bank(bench.bank, [replace(bench.kept[0], sample_id="q1")])
    code, found = bench.check("--data", bench.set)
    assert code == 0 and found[1]["state"] == "not run" and "0.png" in found[1]["why"]
    bench.set.unlink()
    code, found = bench.check("--data", bench.set)
    assert code == 0 and found[1]["state"] == "not run" and "no such file" in found[1]["why"]


def test_check_prints_a_table(bench: Mine) -> None:
    bench.mine("--keep", "2")
    given = ["ace", "check", str(bench.bank), "--profile", str(bench.profile)]
    code, out, err = viper(bench.capsys, *given)
    lines = out.splitlines()
    assert code == 0 and lines[-1] == "2 ok, 0 broken, 0 not run" and "checking: 2/2" in err
    assert lines[1].split() == ["1", "ok", "question", "abstract", bench.kept[0].sample_id, "-"]


@pytest.mark.models
def test_the_embedded_world_is_mined_and_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = str(tmp_path / "bank.jsonl")
    given = ["ace", "mine", "--shots", "2", "--api", "abstract", "--keep", "2", "--out", bank]
    code, out, err = viper(capsys, *given)
    assert code == 0 and "6 of 6 programs" in err, (out, err)
    items = read_bank(Path(bank)).items
    assert items and {(one.set, one.split) for one in items} == {("world", "train")}
    assert all(one.kind for one in items)
    code, out, _ = viper(capsys, "ace", "check", bank)
    assert code == 0 and out.splitlines()[-1] == f"{len(items)} ok, 0 broken, 0 not run"
