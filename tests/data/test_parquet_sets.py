"""Sets of parquet tables: formats, several pictures, broken tables, the commands."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.data import miniature
from tests.data.test_broken_sets import edited
from viper.cli import main
from viper.data.hub import HubPicture
from viper.data.parquet import SUBTASKS
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.errors import DataError, MediaError, MissingExtraError
from viper.models.media import media_from

datasets = pytest.importorskip("datasets", reason="needs the extra: viper-reasoner[data]")

Read = Callable[..., list[Sample]]
Refused = Callable[..., str]

BUILDERS: dict[str, Callable[[Path], Path]] = {
    "hrbench": miniature.hrbench,
    "countbench": miniature.countbench,
    "blink": miniature.blink,
    "cvbench": miniature.cvbench,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.mark.parametrize("name", BUILDERS)
def test_a_complete_set_is_complete_and_can_be_pickled(name: str, root: Path) -> None:
    spec = DatasetSpec(BUILDERS[name](root))
    findings = data_set(name).check(spec)
    assert findings and all(finding.ok for finding in findings), findings
    samples = data_set(name).samples(spec)
    again = pickle.loads(pickle.dumps(samples))
    assert again == samples
    assert media_from(again[0].load()).kind == samples[0].media == "image"


@pytest.mark.parametrize("name", BUILDERS)
def test_missing_files_and_roots_are_one_line(name: str, root: Path) -> None:
    findings = data_set(name).check(DatasetSpec(root))
    assert findings and all("it comes from https://huggingface.co/" in f.says for f in findings)
    with pytest.raises(DataError, match=r"\.parquet: no such file; it comes from https://"):
        data_set(name).samples(DatasetSpec(root))
    with pytest.raises(DataError, match="--root DIR"):
        data_set(name).samples(DatasetSpec())


def test_hrbench(root: Path, read: Read) -> None:
    samples = read("hrbench", miniature.hrbench(root))
    assert [sample.sample_id for sample in samples] == [str(number) for number in range(8)]
    assert [sample.target for sample in samples] == [0, 1, 2, 3] * 2
    assert {sample.options[sample.target] for sample in samples} == {"27B"}
    assert samples[5].groups == {"category": "cross", "cycle": "1"}
    assert len({sample.cluster for sample in samples[:4]}) == 1
    assert samples[3].cluster != samples[4].cluster
    with pytest.raises(DataError, match="hr_bench_8k.parquet: no such file"):
        read("hrbench", root, "8k")


def test_countbench(root: Path, read: Read) -> None:
    first, second = read("countbench", miniature.countbench(root))
    assert (first.sample_id, first.task, first.target) == ("0", "question", "4")
    assert second.groups == {"count": "10"} and second.text.startswith("How many headlights")


def test_blink(root: Path, read: Read) -> None:
    samples = read("blink", miniature.blink(root))
    assert [sample.groups["subtask"] for sample in samples] == list(SUBTASKS)
    first = samples[0]
    assert first.text.startswith("Two points are circled") and "(A)" not in first.text
    assert first.options == ("A is closer", "B is closer") and first.target == 1
    (jigsaw,) = read("blink", root, "val:Jigsaw")
    assert jigsaw.sample_id == "val_Jigsaw_1" and jigsaw.media == "images"
    assert [image.shape for image in jigsaw.load()] == [(30, 40 + n, 3) for n in (1, 2, 3)]


def test_the_answers_of_blink_that_are_not_public(root: Path, refused: Refused) -> None:
    rows = edited(miniature.blink_rows("Jigsaw"), [0, "answer"], "hidden")
    miniature.write_parquet(root / "Jigsaw/val-00000-of-00001.parquet", rows, "image_1")
    assert "'answer' is 'hidden'; expected the letter" in refused("blink", root, "val:Jigsaw")


def test_cvbench(root: Path, read: Read) -> None:
    samples = read("cvbench", miniature.cvbench(root))
    assert [sample.sample_id for sample in samples] == ["0", "1", "1438"]
    assert samples[0].options == ("3", "2", "1", "0") and samples[0].target == 2
    assert samples[2].groups == {"type": "3D", "task": "Depth", "source": "Omni3D"}
    assert samples[0].files == ("img/2D/count/ade20k_10.png",)
    assert read("cvbench", root, "3D") == samples[2:]


ROWS: list[tuple[str, str, Any]] = [
    ("hrbench", "answer", "E"),
    ("hrbench", "answer", None),
    ("hrbench", "C", None),
    ("hrbench", "question", " "),
    ("hrbench", "index", 1),
    ("hrbench", "category", None),
    ("hrbench", "image", None),
    ("countbench", "number", None),
    ("countbench", "question", None),
    ("countbench", "image", None),
    ("cvbench", "choices", ["3", "2"]),
    ("cvbench", "choices", ["3", "", "1"]),
    ("cvbench", "choices", None),
    ("cvbench", "source", None),
]


@pytest.mark.parametrize("name, key, value", ROWS, ids=str)
def test_rows_that_are_off(name: str, key: str, value: Any, root: Path, refused: Refused) -> None:
    rows, file = {
        "hrbench": (miniature.hrbench_rows(), "hr_bench_4k.parquet"),
        "countbench": (miniature.countbench_rows(), "data/test-00000-of-00001.parquet"),
        "cvbench": (miniature.cvbench_rows("2D"), "test_2d.parquet"),
    }[name]
    pictures = () if name == "hrbench" else ("image",)
    BUILDERS[name](root)
    miniature.write_parquet(root / file, edited(rows, [0, key], value), *pictures)
    said = refused(name, root)
    assert file in said and "expected" in said and "get it again from https://" in said
    assert "row 0" in said or "two samples '1'" in said


def test_tables_that_are_off(root: Path, refused: Refused) -> None:
    table = root / "hr_bench_4k.parquet"
    whole = (miniature.hrbench(root) / "hr_bench_4k.parquet").read_bytes()
    for content in (b"", b"PAR1", whole[: len(whole) // 2], b"version https://git-lfs"):
        table.write_bytes(content)
        assert "hr_bench_4k.parquet: cannot be read (" in refused("hrbench", root)
    rows = edited(miniature.hrbench_rows(), [], [{"index": 0, "question": "?"}])
    miniature.write_parquet(table, rows)
    assert "row 0: has no picture" in refused("hrbench", root)
    table.unlink()
    table.mkdir()
    assert "no such file" in refused("hrbench", root)


@pytest.mark.parametrize("text", ["not base64!", "/etc/passwd", "", "aGVsbG8="])
def test_a_text_that_is_no_picture(text: str) -> None:
    with pytest.raises(MediaError, match="row 0: is no picture"):
        HubPicture([{"image": text}], 0, "row 0")()


def test_the_commands(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full, empty = str(miniature.cvbench(root)), str(root.parent)
    for arguments, code, says in (
        (["list"], 0, "multiple choice about 4K and 8K photographs"),
        (["check", "cvbench", "--root", empty], 1, "test_3d.parquet: missing; it comes from"),
        (["check", "cvbench", "--root", full], 0, "complete"),
        (["show", "cvbench", "--root", full], 0, "options   box; desk"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["data", *arguments])
        assert ended.value.code == code and says in capsys.readouterr().out


def test_without_the_library(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    miniature.countbench(root)
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r'pip install "viper-reasoner\[data\]"'):
        data_set("countbench").samples(DatasetSpec(root))
