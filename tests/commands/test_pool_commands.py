"""``viper ace pool`` and ``viper learn prompts``: looking, pruning, sharing, going back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ace.demonstrated import an_example, demonstrated
from tests.commands.test_bad_input import refused, viper
from tests.tuning.prompt_fakes import MODEL, learned
from viper.ace.bank import read_bank, write_bank
from viper.models.vision.prompt_pool import PromptPool
from viper.strategies.demonstration_pool import DemonstrationPool

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state with three demonstrations, one of which misleads, and prompts for two concepts."""
    folder = tmp_path / "state"
    pool = DemonstrationPool(folder / "demonstrations")
    ids = pool.add(
        [
            demonstrated("train-1"),
            demonstrated(part="plan", query="\x1b[31mthe ball\nof two"),
            demonstrated(polarity="incorrect", critique="it guesses"),
        ]
    )
    for _ in range(5):
        pool.record_outcome([ids[2]], solved=False)
    pool.close()
    prompts = PromptPool(folder / "prompts")
    prompts.add("loc", "Tea pot", [learned(1.0), learned(2.0)])
    prompts.add("vqa", None, [learned(3.0)])
    prompts.close()  # else its log is folded in whenever it happens to be collected
    return folder


def test_show(state: Path, capsys: Capture) -> None:
    code, out, err = viper(capsys, "ace", "pool", "show", "--state", str(state))
    header, *rows = out.splitlines()
    assert code == 0 and err == "" and header.split()[:4] == ["id", "part", "polarity", "score"]
    assert len(rows) == 3 and "\x1b" not in out
    assert any("0.25" in row and "0:5" in row and "incorrect" in row for row in rows)
    only = ("--part", "plan", "--polarity", "correct", "--task", "ground")
    code, out, _ = viper(capsys, "ace", "pool", "show", *only, "--state", str(state))
    assert len(out.splitlines()) == 2 and "the ball of two" in out


def test_show_one_in_full_and_as_json(state: Path, capsys: Capture) -> None:
    _, out, _ = viper(capsys, "ace", "pool", "show", "--json", "--state", str(state))
    records = [json.loads(line) for line in out.splitlines()]
    wrong = next(one for one in records if one["example"]["polarity"] == "incorrect")
    assert (wrong["score"], wrong["misled"]) == (0.25, 5)
    _, out, _ = viper(capsys, "ace", "pool", "show", wrong["id"], "--state", str(state))
    assert "critique:\n    it guesses\n" in out and "    def execute_command(image):\n" in out
    assert "        return None" in out and "solved 0, not solved 5" in out
    said = refused(capsys, "ace", "pool", "show", "nothing", "--state", str(state))
    assert "no demonstration 'nothing'" in said


def test_prune_and_roll_back(state: Path, capsys: Capture) -> None:
    given = ("--state", str(state))
    code, out, err = viper(capsys, "ace", "pool", "prune", "--dry-run", *given)
    assert code == 0 and len(out.splitlines()) == 1 and "1 of 3 would go" in err
    code, _, err = viper(capsys, "ace", "pool", "prune", *given)
    assert code == 0 and "1 of 3 went" in err
    assert len(viper(capsys, "ace", "pool", "show", *given)[1].splitlines()) == 3
    versions = viper(capsys, "ace", "pool", "show", "--versions", *given)[1].splitlines()
    assert versions[-1].split()[0] == "7" and versions[-1].endswith("pruned 1")
    code, out, _ = viper(capsys, "ace", "pool", "rollback", "6", *given)
    assert (code, out) == (0, "version 8 is like version 6; version 7 is still there\n")
    assert len(viper(capsys, "ace", "pool", "show", *given)[1].splitlines()) == 4
    assert "there are 0 to 8" in refused(capsys, "ace", "pool", "rollback", "99", *given)


def test_export_and_add(state: Path, tmp_path: Path, capsys: Capture) -> None:
    bank = tmp_path / "shared.jsonl"
    code, out, _ = viper(capsys, "ace", "pool", "export", str(bank), "--state", str(state))
    assert code == 0 and "3 demonstrations" in out and len(read_bank(bank).items) == 3
    other = tmp_path / "other"
    _, out, _ = viper(capsys, "ace", "pool", "add", str(bank), "--state", str(other))
    assert "3 new of 3 demonstrations" in out
    _, out, _ = viper(capsys, "ace", "pool", "add", str(bank), "--state", str(other))
    assert "0 new of 3" in out
    first, second = (DemonstrationPool(one / "demonstrations").items() for one in (state, other))
    assert {one.id for one in first} == {one.id for one in second}
    code, out, _ = viper(
        capsys, "ace", "pool", "export", str(bank), "--validated", "--part", "program",
        "--state", str(state),
    )  # fmt: skip
    assert "1 demonstrations" in out
    said = refused(
        capsys, "ace", "pool", "export", str(bank), "--task", "edit", "--state", str(state)
    )
    assert "nothing was written" in said and len(read_bank(bank).items) == 1


def test_a_mined_example_is_taken_as_a_program(tmp_path: Path, capsys: Capture) -> None:
    write_bank(tmp_path / "bank.jsonl", [an_example(part="", plan=None)])
    given = ("--state", str(tmp_path / "state"))
    code, _, _ = viper(capsys, "ace", "pool", "add", str(tmp_path / "bank.jsonl"), *given)
    assert code == 0 and " program  correct " in viper(capsys, "ace", "pool", "show", *given)[1]
    write_bank(tmp_path / "bank.jsonl", [an_example(part="plan", plan=None)])
    said = refused(capsys, "ace", "pool", "add", str(tmp_path / "bank.jsonl"), *given)
    assert "has no plan" in said


def test_nothing_yet(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIPER_HOME", str(tmp_path / "home"))
    for command in (
        ("ace", "pool", "show"),
        ("learn", "prompts", "list"),
        ("learn", "prompts", "list", "--versions"),
    ):
        code, out, err = viper(capsys, *command)
        assert (code, out) == (0, "") and str(tmp_path / "home") in err
    assert not (tmp_path / "home").exists()
    assert "nothing was learned" in refused(capsys, "learn", "prompts", "show", "loc")
    assert "nothing was kept yet" in refused(capsys, "learn", "prompts", "rollback", "1")


def test_prompts_list_and_show(state: Path, capsys: Capture) -> None:
    _, out, _ = viper(capsys, "learn", "prompts", "list", "--state", str(state))
    rows = [line.split() for line in out.splitlines()[1:]]
    assert rows == [
        ["loc", "tea", "pot", "2", "1", "0.25", "1.00", MODEL],
        ["vqa", "-", "1", "2", "0.25", "1.00", MODEL],
    ]
    _, out, _ = viper(capsys, "learn", "prompts", "list", "--json", "--state", str(state))
    assert json.loads(out.splitlines()[0])["prompts"] == 2
    _, out, _ = viper(capsys, "learn", "prompts", "show", "loc", "TEA POT", "--state", str(state))
    assert out.count("prompt 2 x 4, feature 8") == 2 and "trained on a-1, a-2" in out
    assert "0.25 before, 1.00 after" in out and "asked for by: a cup" in out
    said = refused(capsys, "learn", "prompts", "show", "loc", "jug", "--state", str(state))
    assert "nothing was learned for loc and 'jug'; known: loc tea pot, vqa" in said


def test_prompts_remove_and_rollback(state: Path, capsys: Capture) -> None:
    given = ("--state", str(state))
    said = refused(capsys, "learn", "prompts", "remove", "loc", *given)
    assert "give a concept, --id ID, or --all" in said
    _, shown, _ = viper(capsys, "learn", "prompts", "show", "loc", "--json", *given)
    one = json.loads(shown.splitlines()[0])["id"]
    assert "no prompt 'x'" in refused(
        capsys, "learn", "prompts", "remove", "loc", "--id", "x", *given
    )
    _, out, _ = viper(capsys, "learn", "prompts", "remove", "loc", "--id", one, *given)
    assert out == "1 removed; version 3\n"
    _, out, _ = viper(capsys, "learn", "prompts", "remove", "loc", "tea pot", *given)
    assert out == "1 removed; version 4\n"
    assert len(PromptPool(state / "prompts").kept()) == 1
    _, out, _ = viper(capsys, "learn", "prompts", "rollback", "2", *given)
    assert "version 5 is like version 2" in out
    assert len(PromptPool(state / "prompts").kept("loc", "tea pot")) == 2
    _, out, _ = viper(capsys, "learn", "prompts", "rollback", "5", *given)
    assert out == "version 5 is like version 5 already\n"


def test_a_damaged_pool_is_one_line(state: Path, capsys: Capture) -> None:
    (state / "prompts" / "index.db").write_bytes(b"not a database" * 500)
    for name in ("index.db-wal", "index.db-shm"):
        (state / "prompts" / name).unlink(missing_ok=True)
    code, out, err = viper(capsys, "learn", "prompts", "list", "--state", str(state))
    assert (code, out) == (1, "") and len(err.splitlines()) == 1
    assert "damaged, or not an SQLite file" in err
