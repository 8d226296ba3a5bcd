"""The prompt pool: what is kept with which evidence, who gets it, and what is refused."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from tests.tuning.prompt_fakes import MODEL, learned
from viper.errors import StoreError, UsageError
from viper.models.vision.prompt_pool import PromptPool
from viper.models.vision.soft_prompts import SoftPrompt, SoftPromptSource, mix
from viper.storage.versioned import FILES, INDEX

ASKED = np.ones(8, np.float32)


def test_what_was_learned_is_there_in_another_process_life(tmp_path: Path) -> None:
    pool = PromptPool(tmp_path)
    first, second = learned(1.0), learned(2.0)
    ids = pool.add("loc", "Tea  Pot", [first, second])
    pool.close()
    again: SoftPromptSource = PromptPool(tmp_path)
    found = again.candidates("loc", " tea pot", MODEL)
    assert [one.vectors[0, 0] for one in found] == [1.0, 2.0]
    assert np.array_equal(found[0].feature, first[0].feature)
    mixture = again.ensemble("loc", "TEA POT", ASKED, model_id=MODEL)
    assert mixture is not None and mixture.shape == (2, 4) and 1.0 < mixture[0, 0] < 2.0
    kept = PromptPool(tmp_path).kept("loc", "tea pot")
    assert [one.id for one in kept] == ids and kept[0].evidence == first[1]
    assert (kept[0].concept, kept[0].shape, kept[0].feature_size) == ("tea pot", (2, 4), 8)


def test_an_unknown_concept_or_another_model_has_no_prompt(tmp_path: Path) -> None:
    pool = PromptPool(tmp_path)
    assert pool.ensemble("loc", "cup", ASKED, model_id=MODEL) is None
    pool.add("loc", "cup", [learned(1.0)])
    assert pool.ensemble("loc", "cup", ASKED, model_id=MODEL) is not None
    assert pool.ensemble("loc", "jug", ASKED, model_id=MODEL) is None
    assert pool.ensemble("seg", "cup", ASKED, model_id=MODEL) is None
    assert pool.ensemble("loc", "cup", ASKED, model_id="detector@ffffffffffff") is None
    pool.add("loc", "cup", [learned(3.0, "other", 5, (7, 9))])
    other = pool.ensemble("loc", "cup", np.ones(5, np.float32), model_id="other")
    assert other is not None and other.shape == (7, 9)


def test_a_tool_without_concepts_takes_its_twenty_nearest_of_all(tmp_path: Path) -> None:
    pool = PromptPool(tmp_path)
    pool.add("vqa", None, [learned(float(value)) for value in range(1, 31)])
    found = pool.ensemble("vqa", "whatever", ASKED, model_id=MODEL)
    near = mix(pool.candidates("vqa", None, MODEL), ASKED, 20)
    everything = mix(pool.candidates("vqa", None, MODEL), ASKED, 30)
    assert found is not None and near is not None and everything is not None
    assert np.array_equal(found, near) and found[0, 0] < everything[0, 0]


def test_versions_change_with_the_concept_alone(tmp_path: Path) -> None:
    pool = PromptPool(tmp_path)
    assert pool.version("loc", "cup") == 0
    pool.add("loc", "cup", [learned(1.0)])
    pool.add("loc", "jug", [learned(1.0)])
    assert (pool.version("loc", "cup"), pool.version("loc", "jug")) == (1, 2)
    pool.add("loc", "cup", [learned(1.0)])
    assert pool.version("loc", "cup") == 1, "it was there already"
    pool.remove("loc", "cup")
    assert (pool.version("loc", "cup"), pool.version("loc", "jug")) == (3, 2)
    assert pool.ensemble("loc", "cup", ASKED, model_id=MODEL) is None
    pool.store.roll_back(2)
    assert pool.version("loc", "cup") == 4
    assert pool.ensemble("loc", "cup", ASKED, model_id=MODEL) is not None


def test_another_pool_object_sees_the_new_version_at_once(tmp_path: Path) -> None:
    writer, reader = PromptPool(tmp_path), PromptPool(tmp_path)
    for value in (1.0, 5.0):
        writer.add("loc", "cup", [learned(value)])
        assert len(reader.candidates("loc", "cup", MODEL)) == (1 if value == 1.0 else 2)


def test_removing_by_id_and_by_tool(tmp_path: Path) -> None:
    pool = PromptPool(tmp_path)
    ids = pool.add("loc", "cup", [learned(1.0), learned(2.0)])
    pool.add("loc", "jug", [learned(3.0)])
    pool.add("seg", "cup", [learned(4.0)])
    assert pool.remove("loc", "cup", ids[:1]) == 1 and len(pool.kept("loc")) == 2
    assert pool.remove("loc") == 2 and [one.tool for one in pool.kept()] == ["seg"]
    assert pool.remove("loc") == 0


@pytest.mark.parametrize(
    ("tool", "concept", "said"),
    [
        ("LOC", "cup", "no name of a tool"),
        ("../loc", "cup", "no name of a tool"),
        ("loc", None, "kept under a concept"),
        ("loc", "  ", "kept under a concept"),
        ("loc", "x" * 300, "300 characters"),
        ("loc", "cup\x1b[31m", "printable"),
    ],
)
def test_names_that_cannot_be_kept(
    tmp_path: Path, tool: str, concept: str | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        PromptPool(tmp_path).add(tool, concept, [learned(1.0)])
    assert not (tmp_path / INDEX).exists()


def odd(change: Callable[[SoftPrompt], SoftPrompt]) -> SoftPrompt:
    return change(learned(1.0)[0])


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (odd(lambda p: SoftPrompt(p.feature.astype("f8"), p.vectors)), "float64"),
        (odd(lambda p: SoftPrompt(p.feature, p.vectors[0])), "2-D"),
        (odd(lambda p: SoftPrompt(p.feature, p.vectors * np.float32("nan"))), "not finite"),
        (odd(lambda p: SoftPrompt(p.feature * np.float32("inf"), p.vectors)), "not finite"),
        (odd(lambda p: SoftPrompt(p.feature, np.zeros((0, 4), "f4"))), "expected 1 to"),
        (odd(lambda p: SoftPrompt(p.feature, np.zeros((5000, 1), "f4"))), "expected 1 to"),
    ],
)
def test_arrays_that_cannot_be_kept(tmp_path: Path, prompt: SoftPrompt, said: str) -> None:
    pool = PromptPool(tmp_path)
    pool.add("loc", "cup", [learned(1.0)])
    with pytest.raises(UsageError, match=said):
        pool.add("loc", "cup", [learned(2.0), (prompt, learned(1.0)[1])])
    assert len(pool.kept()) == 1 and pool.store.version == 1


def test_sizes_of_a_concept_are_one(tmp_path: Path) -> None:
    pool = PromptPool(tmp_path)
    pool.add("loc", "cup", [learned(1.0)])
    with pytest.raises(UsageError, match=r"sizes \(8, \(3, 4\)\).*\(8, \(2, 4\)\)"):
        pool.add("loc", "cup", [learned(2.0), learned(1.0, shape=(3, 4))])
    assert len(pool.kept()) == 1


def rewritten(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    """Puts another file in place of the pool's one, with the right name."""
    content = save(arrays)
    name = hashlib.sha256(content).hexdigest()
    (folder / FILES / f"{name}.safetensors").write_bytes(content)
    execute(folder, "UPDATE entries SET file = ?", name)


def execute(folder: Path, statement: str, *given: object) -> None:
    connection = sqlite3.connect(folder / INDEX)
    connection.execute(statement, given)
    connection.commit()
    connection.close()


GOOD = {"feature": np.ones(8, np.float32), "prompt": np.ones((2, 4), np.float32)}


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"feature": GOOD["feature"]}, "expected feature and prompt"),
        ({**GOOD, "more": GOOD["prompt"]}, "expected feature and prompt"),
        ({**GOOD, "prompt": np.ones((2, 4), np.float64)}, "float64"),
        ({**GOOD, "prompt": np.ones((2, 5), np.float32)}, "its record says"),
        ({**GOOD, "feature": np.ones(9, np.float32)}, "its record says"),
        ({**GOOD, "prompt": np.full((2, 4), np.nan, np.float32)}, "not finite"),
    ],
)
def test_a_hostile_file_is_one_line(
    tmp_path: Path, arrays: dict[str, np.ndarray], said: str
) -> None:
    pool = PromptPool(tmp_path)
    pool.add("loc", "cup", [learned(1.0)])
    rewritten(tmp_path, arrays)
    with pytest.raises(StoreError, match=said) as caught:
        PromptPool(tmp_path).ensemble("loc", "cup", ASKED, model_id=MODEL)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tool": 3}, "no record"),
        ({"tool": "seg"}, "do not fit"),
        ({"shape": [2, 4, 4]}, "no record"),
        ({"shape": [2, -4]}, "do not fit"),
        ({"shape": 7}, "no record"),
        ({"evidence": {}}, "no record"),
        ({"evidence": {"model_id": ["x"]}}, "no record"),
        ({"evidence": {"model_id": "m", "before": "high"}}, "no record"),
    ],
)
def test_a_hostile_record_is_one_line(tmp_path: Path, changes: dict, said: str) -> None:
    pool = PromptPool(tmp_path)
    pool.add("loc", "cup", [learned(1.0)])
    (entry,) = pool.store.entries()
    execute(tmp_path, "UPDATE entries SET record = ?", json.dumps({**entry.record, **changes}))
    with pytest.raises(StoreError, match=said):
        PromptPool(tmp_path).kept()


def test_prompts_of_two_sizes_are_not_mixed(tmp_path: Path) -> None:
    pool = PromptPool(tmp_path)
    pool.add("loc", "cup", [learned(1.0), learned(2.0)])
    record = pool.store.entries()[0].record
    execute(
        tmp_path,
        "UPDATE entries SET record = ? WHERE key = ?",
        json.dumps({**record, "shape": [4, 2]}),
        pool.store.entries()[0].key,
    )
    with pytest.raises(StoreError, match="2 prompts of 2 sizes"):
        PromptPool(tmp_path).candidates("loc", "cup", MODEL)
