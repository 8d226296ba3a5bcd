"""What an earlier version stored still opens: runs, pools, banks, caches and indexes of its time.

``stored`` was written by viper 0.1.0 at revision d5ad3e9 and is never written anew.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.tuning.prompt_fakes import MODEL, learned
from viper.ace.bank import read_bank
from viper.evaluate.runs.feedback import read_feedback
from viper.evaluate.runs.learning_record import Journal
from viper.evaluate.runs.manifest import differences
from viper.evaluate.runs.store import RunStore
from viper.models.llm.protocol import Sampling
from viper.models.llm.scripted import ScriptedLLM
from viper.models.llm.wrapped import CachedLLM
from viper.models.vision.prompt_pool import PromptPool
from viper.record import record_from_json
from viper.schema import Query, Trace
from viper.search.picture_index import PictureIndex
from viper.storage.sqlite import SqliteStore
from viper.strategies.demonstration_pool import DemonstrationPool
from viper.strategies.examples import ExampleRequest
from viper.testing.fakes import FakeMatcher
from viper.tuning.agent.flags import read_labels
from viper.tuning.tool_training import TrainedFiles

RUNS = {"program": 6, "plan": 2, "seek": 2, "explore": 2}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A copy: opening an SQLite file to read may write beside it."""
    return Path(shutil.copytree(Path(__file__).with_name("stored"), tmp_path / "stored"))


@pytest.mark.parametrize("strategy", RUNS)
def test_a_stored_run_opens_with_every_row_and_trace(stored: Path, strategy: str) -> None:
    folder = stored / f"run-{strategy}"
    with RunStore.read(folder) as run:
        assert run.manifest.strategy == strategy and run.manifest.set.name == "world"
        rows = list(run.rows())
        assert len(rows) == run.count() == RUNS[strategy]
        assert all(row.score in (0.0, 1.0) and row.target is not None for row in rows)
        for row in rows:
            values = run.trace(row.sample_id, row.seed)
            assert values is not None
            trace = record_from_json(Trace, values)
            assert trace.strategy == strategy
            assert (trace.answer is None) == (row.failure is not None)
            assert trace.query.sample_id == row.sample_id
            assert all(call.tool for trial in trace.trials for call in trial.tool_calls)
            assert not trace.path or strategy == "seek"
            assert bool(trace.turns) == (strategy == "explore")
        assert run.sessions()[0]["arguments"][1] == "eval"


def test_a_stored_run_can_be_resumed(stored: Path) -> None:
    folder = stored / "run-program"
    with RunStore.read(folder) as run:
        manifest, row = run.manifest, next(iter(run.rows()))
    assert not list(differences(manifest, dataclasses.replace(manifest)))
    with RunStore.resume(folder, manifest) as run:
        run.add(9, dataclasses.replace(row, sample_id="another"))
        assert run.count() == 7 and len(run.sessions()) == 2


def test_the_lessons_remarks_and_labels_of_a_run(stored: Path) -> None:
    lessons = Journal(stored / "run-program").records()
    assert [(one.sample_id, one.refused) for one in lessons] == [("val-0-referring-0", 4)]
    assert lessons[0].updates[0].key == ("loc", "pyramid")
    (remark,) = read_feedback(stored / "run-program")
    assert (remark.answer, remark.comment) == ("yes", "it is the left one")
    first, second = read_labels(stored / "labels.jsonl")
    assert (first.turn, first.effective) == (1, True)
    assert (second.manner, second.seed, second.number) == ("replay", 1, 2)


def test_a_stored_demonstration_pool(stored: Path) -> None:
    pool = DemonstrationPool(stored / "pool")
    wanted = ExampleRequest("ground", "abstract", 4, 4, retrieval="bm25")
    chosen = pool.select(Query("the red cube", "ground"), wanted)
    assert [one.example.query for one in chosen.correct] == ["the red cube on a ring"]
    assert [one.example.critique for one in chosen.incorrect] == ["why"]


def test_a_stored_prompt_pool_can_be_rolled_back(stored: Path) -> None:
    pool = PromptPool(stored / "prompts")
    assert [one.vectors[0, 0] for one in pool.candidates("loc", "tea pot", MODEL)] == [1.0, 2.0]
    assert pool.kept("loc", "tea pot")[0].evidence == learned(1.0)[1]
    assert [one.number for one in pool.store.versions()] == [1, 2, 3, 4]
    pool.store.roll_back(3)
    assert not pool.candidates("loc", "tea pot", MODEL)


def test_stored_training(stored: Path) -> None:
    (trained,) = TrainedFiles(stored / "trained").get(("loc", "cup"))
    assert np.array_equal(trained.prompt.vectors, learned(1.0)[0].vectors)


def test_a_stored_bank(stored: Path) -> None:
    items = read_bank(stored / "bank.jsonl").items
    assert len(items) == 6 and all(one.program and one.query for one in items)


def test_a_stored_cache_of_replies(stored: Path) -> None:
    llm = CachedLLM(ScriptedLLM(model_id="writer"), SqliteStore(stored / "llm-cache.db"))
    ((reply,),) = llm.generate(["question"], Sampling(n=1))
    assert reply.text == "a program" and llm.score("prompt", ["yes", "no"]) == [-0.5, -2.0]
    assert (llm.hits, llm.misses) == (2, 0)


def test_a_stored_index_of_pictures(stored: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    matcher = FakeMatcher()
    for name in ("red", "blue"):
        Image.new("RGB", (8, 8), name).save(folder / f"{name}.png")
    index = PictureIndex(folder, matcher, tmp_path / "state")
    index.path.parent.mkdir(parents=True)
    shutil.copy(stored / "pictures.db", index.path)
    found = index.read()
    assert found.names == ("blue.png", "red.png")
    assert found.vectors.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    assert index.update() == () and index.read().names == found.names and matcher.encoded == 0
