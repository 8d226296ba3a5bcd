"""Runs as training data: what is right and verified, and why the rest is left out."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.env.conftest import right
from viper.cli import main
from viper.env.episode import Episode, Rules
from viper.env.export import TrainingData
from viper.evaluate.sample_result import SampleResult
from viper.schema import Check, Failure, Trace, Trial, Usage

LUCKY = "def execute_command(image):\n    return 'yes'"
BROKEN = "def execute_command(image):\n    return 1 / 0"


def trial(program, index=0, failure=None):
    return Trial(index, program, "first", failure is None, failure, {}, (), "", 0.1)


def trace_of(sample, *trials, **more):
    return Trace(
        query=sample.query, task=sample.task, task_reason="", answer=None, failure=None,
        trials=trials, usage=Usage(), seconds=0.1, strategy="program", profile="test",
        api="abstract", seed=0, **more,
    )  # fmt: skip


class Store:
    """The results of a run, as RunStore gives them."""

    def __init__(self, results):
        self.manifest = SimpleNamespace(metric="world", seeds=(0, 1))
        self._results = {(row.sample_id, row.seed): (row, trace) for row, trace in results}

    def rows(self):
        return (row for row, _ in self._results.values())

    def row(self, sample_id, seed):
        return self._results.get((sample_id, seed), (None, None))[0]

    def read_trace(self, sample_id, seed):
        return self._results[sample_id, seed][1]


def result(sample, trace, score=1.0, seed=0, **more):
    return SampleResult.of(sample, seed, score, program=trace.program, **more), trace


def data_of(results, task, reasoner, **options):
    samples = {task.sample.sample_id: task.sample}
    return TrainingData(Store(results), samples, reasoner.components, **options)


def test_a_program_that_holds_elsewhere_is_exported_once(yes, reasoner):
    good = trace_of(yes.sample, trial(right(yes)))
    data = data_of([result(yes.sample, good), result(yes.sample, good, seed=1)], yes, reasoner)
    (record,) = data.sft()
    assert record["completion"] == [{"role": "assistant", "content": right(yes)}]
    assert record["id"] == yes.sample.sample_id
    episode = Episode(yes, reasoner, Rules(exact=True))
    assert record["prompt"] == [{"role": "user", "content": episode.reset().text}]
    assert episode.act(record["completion"][0]["content"]).done
    assert episode.reward().total == 1.0
    episode.close()
    assert data.left_out == {"the same program again": 1}


@pytest.mark.parametrize("unverified", [False, True])
def test_a_lucky_program_is_left_out_unless_asked_for(yes, reasoner, unverified):
    data = data_of([result(yes.sample, trace_of(yes.sample, trial(LUCKY)))], yes, reasoner,
                   unverified=unverified)  # fmt: skip
    assert len(list(data.sft())) == unverified
    assert data.left_out == ({} if unverified else {"wrong elsewhere": 1})


def test_a_pair_has_a_program_that_failed_or_answered_wrongly(yes, reasoner):
    failed = Failure("runtime", "division by zero")
    mended = trace_of(yes.sample, trial(BROKEN, failure=failed), trial(right(yes), 1), chosen=1)
    wrong = trace_of(yes.sample, trial(LUCKY.replace("yes", "no")))
    for results, rejected in (
        ([result(yes.sample, mended)], BROKEN),
        (
            [
                result(yes.sample, replace(mended, trials=mended.trials[1:], chosen=0)),
                result(yes.sample, wrong, 0.0, seed=1),
            ],
            wrong.program,
        ),
    ):
        (pair,) = data_of(results, yes, reasoner).preference()
        assert pair["chosen"][0]["content"] == right(yes)
        assert pair["rejected"][0]["content"] == rejected


def test_reasons_to_be_left_out(yes, reasoner):
    sample, good = yes.sample, trial(right(yes))
    unknown = replace(sample, load=lambda: None)
    check = Check("relation", "mirrored", False, "left", "right")
    fallen = trace_of(sample, good, fallback="vipergpt")
    results = {
        "wrong": (sample, trace_of(sample, good), {"score": 0.0}),
        "no answer": (sample, trace_of(sample, good), {"failure": "budget"}),
        "not answered by a single program": (sample, fallen, {}),
        "not verified": (unknown, trace_of(sample, good), {}),
        "failed a check": (unknown, trace_of(sample, good, checks=(check,)), {}),
    }  # fmt: skip
    for reason, (known, trace, more) in results.items():
        store = Store([result(sample, trace, **more)])
        data = TrainingData(store, {sample.sample_id: known}, reasoner.components)
        assert list(data.sft()) == []
        assert data.left_out == {reason: 1}


def test_a_checked_program_of_an_unknown_scene_is_exported(yes, reasoner):
    check = Check("relation", "mirrored", True, "left", "left")
    trace = trace_of(yes.sample, trial(LUCKY), checks=(check,))
    samples = {yes.sample.sample_id: replace(yes.sample, load=lambda: None)}
    data = TrainingData(Store([result(yes.sample, trace)]), samples, reasoner.components)
    assert len(list(data.sft())) == 1


def viper(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    return end.value.code, out, err


def test_the_command_writes_what_an_episode_rewards(tmp_path, tasks, reasoner, capsys):
    run, file = tmp_path / "run", tmp_path / "sft.jsonl"
    viper(capsys, "eval", "world-everyday", "--split", "val", "--seed", 5, "--limit", 9,
          "--profile", "embedded", "--out", run)  # fmt: skip
    code, out, err = viper(capsys, "env", "export", run, "--format", "sft", "-o", file)
    assert (code, out) == (0, ""), err
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert records
    assert f"{len(records)} records; left out: " in err
    by_id = {task.sample.sample_id: task for task in map(tasks.__getitem__, range(9))}
    for record in records:
        episode = Episode(by_id[record["id"]], reasoner, Rules(exact=True))
        assert episode.reset().text == record["prompt"][0]["content"]
        episode.act(record["completion"][0]["content"])
        assert episode.reward().parts["answer"] == 1.0
        episode.close()
    code, _, err = viper(capsys, "env", "export", run, "--format", "sft", "-o", file)
    assert code == 2
    assert "there already" in err
    code, out, err = viper(capsys, "env", "export", run, "--format", "sft", "--unverified")
    assert len(out.splitlines()) >= len(records)
