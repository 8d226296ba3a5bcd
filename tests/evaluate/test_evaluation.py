"""Which samples a run is about, and what its manifest says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine_doubles import a_sample
from fake_backends import a_set

from viper.data.sample import DatasetSpec
from viper.errors import DataError, UnknownNameError, UsageError
from viper.evaluate.campaign import Campaign
from viper.evaluate.evaluation import (
    Evaluation,
    default_folder,
    manifest_of,
    missing_media,
    prompt_hash,
    read_ids,
)
from viper.evaluate.runs.manifest import Manifest, differences
from viper.profiles import load_profile
from viper.reasoner import Reasoner, RunOptions
from viper.schema import to_json


def test_the_same_samples_for_the_same_evaluation() -> None:
    evaluation = Evaluation(
        "world", DatasetSpec(split="val:question", seed=3), limit=5, seeds=(3, 4)
    )
    items = evaluation.items()
    assert [item.key for item in items] == [item.key for item in evaluation.items()]
    assert len(items) == 10 and {item.seed for item in items} == {3, 4}
    assert evaluation.metric == "world" and evaluation.located().limit == 5
    assert Evaluation("world").located().split == "val"


def test_a_set_without_samples_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("media,query,answer\n")
    with pytest.raises(DataError):
        Evaluation(str(tmp_path / "empty.csv")).samples()


def test_an_unknown_set_or_split_lists_the_known() -> None:
    with pytest.raises(UnknownNameError, match="known: .*world"):
        Evaluation("nope").samples()
    with pytest.raises(UnknownNameError, match="known: .*val"):
        Evaluation("world", DatasetSpec(split="nope")).samples()


def test_the_first_media_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    csv, _ = a_set(tmp_path, 12)
    samples = Evaluation(str(csv)).samples()
    assert list(missing_media(samples)) == []
    (tmp_path / "pictures" / "0.png").write_bytes(b"\x89PNG cut")
    (tmp_path / "pictures" / "1.png").unlink()
    (said,) = set(missing_media(samples))
    assert "0.png" in said
    assert len(list(missing_media(samples, look_at=12))) == 8

    def breaks() -> None:
        raise ZeroDivisionError("odd\noffset")

    assert list(missing_media([a_sample(0, load=breaks)])) == ["s0: ZeroDivisionError: odd offset"]


def test_a_folder_name_by_default(tmp_path: Path) -> None:
    assert default_folder(Evaluation("refcoco+"), "now") == Path("runs/refcoco+-val-now")
    own = Evaluation(str(tmp_path / "my set.csv"))
    assert default_folder(own, "now") == Path("runs/my-set-all-now")
    world = Evaluation("world", DatasetSpec(split="val:referring4"))
    assert default_folder(world, "now") == Path("runs/world-val-referring4-now")


def a_manifest(tmp_path: Path, reasoner: Reasoner, **changes: Any) -> Manifest:
    csv = tmp_path / "questions.csv"
    evaluation = replace(Evaluation(str(csv), DatasetSpec()), **changes)
    document = {"name": "fake"}
    return manifest_of(evaluation, evaluation.samples(), reasoner, document, {"workers": 2})


@pytest.fixture
def reasoner(tmp_path: Path) -> Any:
    _, profile = a_set(tmp_path, 8)
    with Reasoner(load_profile(str(profile)), preload=False) as made:
        yield made


def test_the_manifest_names_models_settings_and_prompts(tmp_path: Path, reasoner: Reasoner) -> None:
    made = a_manifest(tmp_path, reasoner, deadline_s=30.0, options=RunOptions(temperature=0.3))
    seers = {"detector": "fake-finder", "vqa": "fake-answerer", "ocr": "reader"}
    assert made.models == {"llm": "fake-writer", **seers}
    assert (made.metric, made.seeds, made.strategy, made.api) == (
        "mixed", (0,), "program", "abstract+more",
    )  # fmt: skip
    assert made.settings["temperature"] == 0.3 and made.settings["deadline_s"] == 30.0
    assert not {"seed", "api"} & set(made.settings)
    assert made.set.samples == 8 and len(str(made.prompt_hash)) == 64
    assert Manifest.from_json(to_json(made.to_json())).fingerprint == made.fingerprint


def test_an_unknown_metric_ends_before_models_load(
    tmp_path: Path, reasoner: Reasoner, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = Evaluation(str(tmp_path / "questions.csv"))
    monkeypatch.setattr(Evaluation, "metric", "acuracy")
    with pytest.raises(UnknownNameError, match="metric 'acuracy'"):
        Campaign.of(evaluation, evaluation.samples(), reasoner, {"name": "fake"}, {})
    assert reasoner.components.toolbox.models.loaded() == {}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"limit": 5}, "set limit"),
        ({"seeds": (0, 1)}, "seeds"),
        ({"deadline_s": 9.0}, "deadline_s"),
        ({"options": RunOptions(trials=7)}, "trials"),
        ({"options": RunOptions(fallback="vipergpt")}, "fallback"),
        ({"options": RunOptions(max_llm_calls=2)}, "max_llm_calls"),
        ({"options": RunOptions(strategy="vqa")}, "strategy"),
    ],
)
def test_what_changes_answers_is_told(
    tmp_path: Path, reasoner: Reasoner, changes: dict[str, Any], named: str
) -> None:
    found = differences(a_manifest(tmp_path, reasoner), a_manifest(tmp_path, reasoner, **changes))
    assert any(line.startswith(f"{named}: ") for line in found)
    assert not differences(
        a_manifest(tmp_path, reasoner, **changes), a_manifest(tmp_path, reasoner, **changes)
    )


def test_the_prompt_hash_is_of_each_kind_of_sample(reasoner: Reasoner) -> None:
    question = a_sample(0)
    choice = a_sample(1, task="choice", options=("a", "b"))
    statement = a_sample(2, task="statement", media="images")
    one, two, three = (
        prompt_hash(reasoner, kinds, RunOptions())
        for kinds in ([question], [question, choice], [question, choice, statement])
    )
    assert len({one, two, three}) == 3
    assert one == prompt_hash(reasoner, [question, a_sample(5)], RunOptions(seed=9))


def test_ids_from_a_file_or_a_line(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("b\n a \n\nb\n")
    assert read_ids(str(tmp_path / "ids.txt")) == ("b", "a")
    assert read_ids("b, a,b") == ("b", "a")
    for wrong in (",", ""):
        with pytest.raises(UsageError, match="no sample ids"):
            read_ids(wrong)
    (tmp_path / "ids.txt").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read as text"):
        read_ids(str(tmp_path / "ids.txt"))


def test_samples_by_their_ids(tmp_path: Path) -> None:
    file, _ = a_set(tmp_path, 8)
    named = Evaluation(str(file), limit=2, ids=("q5", "q1", "q7"))
    assert [one.sample_id for one in named.samples()] == ["q5", "q1", "q7"]
    drawn = Evaluation("world", DatasetSpec(None, "val"), ids=("val-3-question-1",)).samples()
    assert [one.sample_id for one in drawn] == ["val-3-question-1"]
    with pytest.raises(DataError, match="all has no sample q9; see viper data show"):
        Evaluation(str(file), ids=("q9",)).samples()
