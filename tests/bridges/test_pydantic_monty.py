"""The comparison of sandboxes with the real Monty: it runs programs and meets the attempts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bridges.needed import need

need("pydantic_monty", "pydantic-monty")

from benchmarks import sandbox_peers as peers  # noqa: E402

(MONTY,) = (executor for executor in peers.EXECUTORS if executor.opened is peers.monty)


def test_the_comparison_runs_ordinary_programs() -> None:
    programs = dict(list(peers.ordinary().items())[::4])
    with peers.monty(lambda *values: sum(values)) as run:
        ended = {
            name: peers.outcome(MONTY, run, program) for name, (program, _) in programs.items()
        }
    answers = {name: value for name, (kind, value) in ended.items() if kind == "answer"}
    assert len(answers) > len(programs) / 3
    assert all(value == programs[name][1] for name, value in answers.items())


def test_the_comparison_meets_calls_and_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEER_peers.SECRET", peers.SECRET)
    path = tmp_path / "secret.txt"
    path.write_text(peers.SECRET)
    with peers.monty(lambda *values: sum(values)) as run:
        assert peers.outcome(MONTY, run, "answer = add(20, 22)") == ("answer", 42)
        ended = [
            peers.outcome(MONTY, run, program.format(path=path))
            for program in peers.ESCAPES.values()
        ]
    assert not [value for _, value in ended if peers.SECRET in str(value)]
    assert peers.inside(peers.monty, separate=True).startswith("uid ")
