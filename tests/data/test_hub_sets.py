"""Sets as the hub has them, from copies that the ``datasets`` library itself saved."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.data import miniature
from viper.data.hub import HubPicture
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec
from viper.errors import DataError, MediaError, MissingExtraError
from viper.models.media import media_from

datasets = pytest.importorskip("datasets", reason="needs the extra: viper-reasoner[data]")


def save(root: Path, repository: str, rows: list[dict[str, Any]]) -> None:
    table = datasets.Dataset.from_list(rows)
    if "image" in table.column_names:
        table = table.cast_column("image", datasets.Image())
    table.save_to_disk(str(root / repository))


def grey() -> Image.Image:
    return Image.new("RGB", (40, 30), "grey")


REFCOCO = {
    "question_id": "7",
    "image": grey(),
    "question": "Describe",
    "answer": ["man on left", "the guy"],
    "bbox": [1.0, 2.0, 10.0, 20.0],
    "file_name": "COCO_train2014_000000000005_7.jpg",
}


def test_refcoco(tmp_path: Path) -> None:
    save(tmp_path, "lmms-lab/RefCOCO", [REFCOCO, {**REFCOCO, "answer": ["dog"]}])
    found = data_set("hub:lmms-lab/RefCOCO")
    samples = found.samples(DatasetSpec(tmp_path))
    assert [s.sample_id for s in samples] == ["0-7-0", "0-7-1", "1-7-0"]
    assert [s.text for s in samples] == ["man on left", "the guy", "dog"]
    assert samples[0].target == (1.0, 2.0, 11.0, 22.0)
    assert {s.cluster for s in samples} == {"COCO_train2014_000000000005"}
    again = pickle.loads(pickle.dumps(samples[2]))
    assert media_from(again.load()).images[0].shape == (30, 40, 3)
    (finding,) = found.check(DatasetSpec(tmp_path))
    assert finding.ok and finding.says == "3 samples"


def test_gqa(tmp_path: Path) -> None:
    questions = [
        {"id": key, **question, "semantic": "[]"}
        for key, question in miniature.gqa_questions().items()
    ]
    for question in questions:
        del question["groups"]
    save(tmp_path, "lmms-lab/GQA/testdev_balanced_instructions", questions)
    pictures = [{"id": name, "image": grey()} for name in ("77", "n5")]
    save(tmp_path, "lmms-lab/GQA/testdev_balanced_images", pictures)
    first, second = data_set("hub:lmms-lab/GQA").samples(DatasetSpec(tmp_path))
    assert (first.sample_id, first.target, first.cluster) == ("20", "red", "n5")
    assert second.groups["structural"] == "query" and second.load().shape == (30, 40, 3)


def test_nextqa(tmp_path: Path) -> None:
    numbers = ("frame_count", "width", "height", "answer", "qid", "video")
    rows = [
        {key: int(value) if key in numbers else value for key, value in row.items()}
        for row in miniature.nextqa_rows()
    ]
    save(tmp_path, "lmms-lab/NExTQA/MC", rows)
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos/111.mp4").write_bytes(b"video")
    samples = data_set("hub:lmms-lab/NExTQA").samples(DatasetSpec(tmp_path))
    assert samples[0].sample_id == "111_6" and samples[0].files == ("videos/111.mp4",)
    with pytest.raises(DataError, match="give --root DIR with videos"):
        data_set("hub:lmms-lab/NExTQA").samples(DatasetSpec())


def test_okvqa_of_a_dict_of_splits(tmp_path: Path) -> None:
    row = {"question_id": "31", "image": grey(), "question": "which?", "answers": ["tennis"] * 10}
    table = datasets.Dataset.from_list([row]).cast_column("image", datasets.Image())
    folder = tmp_path / "lmms-lab/OK-VQA"
    datasets.DatasetDict({"val2014": table}).save_to_disk(str(folder))
    (sample,) = data_set("hub:lmms-lab/OK-VQA").samples(DatasetSpec(tmp_path))
    assert sample.target == ("tennis",) * 10 and sample.load().shape == (30, 40, 3)


@pytest.mark.parametrize(
    "change, says",
    [
        ({"bbox": [1.0, 2.0]}, "row 0: 'bbox' is"),
        ({"bbox": None}, "row 0: 'bbox' is None"),
        ({"answer": [""]}, "'answer' is ''"),
        ({"answer": "x"}, "'answer' is 'x'; expected a list"),
        ({"question_id": None}, "'question_id' is None"),
    ],
)
def test_rows_that_are_off(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    save(tmp_path, "lmms-lab/RefCOCO", [{**REFCOCO, **change}])
    with pytest.raises(DataError) as raised:
        data_set("hub:lmms-lab/RefCOCO").samples(DatasetSpec(tmp_path))
    said = str(raised.value)
    assert says in said and "lmms-lab/RefCOCO" in said and "\n" not in said


def test_a_picture_that_is_a_path_is_not_followed(tmp_path: Path) -> None:
    miniature.picture(tmp_path / "secret.png")
    row = {"image": {"path": str(tmp_path / "secret.png"), "bytes": None}}
    with pytest.raises(MediaError, match="7.png: is no picture"):
        HubPicture([row], 0, "7.png")()


def test_broken_copies_and_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "lmms-lab/RefCOCO"
    folder.mkdir(parents=True)
    for content in (None, "{", "{}"):
        if content:
            (folder / "dataset_info.json").write_text(content, encoding="utf-8")
            (folder / "state.json").write_text(content, encoding="utf-8")
        with pytest.raises(DataError) as raised:
            data_set("hub:lmms-lab/RefCOCO").samples(DatasetSpec(tmp_path))
        assert "\n" not in str(raised.value)

    def unreachable(*_: Any, **__: Any) -> Any:
        raise ConnectionError("offline\nin two lines")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    (finding,) = data_set("hub:lmms-lab/OK-VQA").check(DatasetSpec())
    assert not finding.ok and "ConnectionError: offline; is the hub reachable?" in finding.says


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r'pip install "viper-reasoner\[data\]"'):
        data_set("hub:lmms-lab/OK-VQA").samples(DatasetSpec())
