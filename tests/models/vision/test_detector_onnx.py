"""Detectors in ONNX files: boxes and scores of four families to the pixel, and broken files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomlkit

from tests.evaluate.official import real
from tests.models.vision.onnx_graphs import COLOR, FAMILIES, LAYOUTS, NAMES, SIDE, Graph, plain
from viper.errors import ToolError, UsageError, ViperError
from viper.models.vision.boxes import MIN_SCORE
from viper.models.vision.colors import COLORS
from viper.models.vision.detector_onnx import OnnxDetector, OnnxEncoding, open_session
from viper.models.vision.onnx_layout import Layout, OnnxError, decoded
from viper.models.vision.onnx_proposal import proposed
from viper.models.vision.roles import Detector

SHARES = [value / 255 for value in COLOR]


def detector(folder: Path, graph: Graph, **layout: Any) -> OnnxDetector:
    path = graph.write(folder / f"{graph.family}.onnx")
    values = {"size": [SIDE, SIDE], "categories": list(NAMES), **LAYOUTS[graph.family], **layout}
    path.with_suffix(".toml").write_text(tomlkit.dumps(values))
    return OnnxDetector.from_pretrained(path)


def found(model: OnnxDetector, picture: Any = None) -> dict[str, tuple[tuple[float, ...], float]]:
    (encoding,) = model.encode([plain() if picture is None else picture])
    return {
        model.categories[index]: (tuple(np.round(each.box, 2)), round(each.score, 3))
        for index, each in model.survey(encoding)
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_the_box_and_the_scores_of_each_family_are_exact(family: str, tmp_path: Path) -> None:
    # softmax needs scores that add up to 1 at most
    half = 0.5 if family == "detr_softmax" else 1.0
    times = 1 / 255 if family == "yolox" else 1.0
    model = detector(tmp_path, Graph(family, times=(times * half,) * 3))
    assert isinstance(model, Detector)
    letterbox = LAYOUTS[family].get("letterbox")
    box = {"corner": (16, 32, 80, 96), "centre": (16, 8, 80, 72), None: (16, 24, 80, 72)}[letterbox]
    shares = SHARES[::-1] if family == "yolox" else SHARES
    boxes = found(model)
    assert {name: place for name, (place, _) in boxes.items()} == dict.fromkeys(NAMES, box)
    scores = [boxes[name][1] for name in NAMES]
    assert scores == pytest.approx([share * half for share in shares], abs=0.002)


@pytest.mark.parametrize(
    ("letterbox", "box", "corner"),
    [
        ("corner", (16, 32, 80, 96), COLOR[0] / 255),
        ("centre", (16, 8, 80, 72), 114 / 255),
        ("none", (16, 24, 80, 72), COLOR[0] / 255),
    ],
)
def test_a_wide_picture_lies_where_the_layout_says(
    letterbox: str, box: tuple[int, ...], corner: float, tmp_path: Path
) -> None:
    graph = Graph(pixel=(1, 1))  # the fill if the picture is in the middle
    model = detector(tmp_path, graph, letterbox=letterbox, colors="RGB")
    place, score = found(model)["cat"]
    assert place == box
    assert score == pytest.approx(corner, abs=0.001)


def test_a_high_picture_is_moved_to_the_right(tmp_path: Path) -> None:
    model = detector(tmp_path, Graph(), letterbox="centre")
    assert found(model, plain(144, 192))["cat"][0] == (0, 32, 56, 96)


def test_a_box_beyond_the_picture_is_cut(tmp_path: Path) -> None:
    model = detector(tmp_path, Graph(box=(24, 24, 120, 120)), letterbox="corner")
    assert found(model)["cat"][0] == (48, 48, 192, 144)


def test_axes_and_normalisation_are_those_of_the_layout(tmp_path: Path) -> None:
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.25, 0.5]
    graph = Graph("yolo_rows", axes="NHWC", times=std, plus=mean)
    model = detector(tmp_path, graph, axes="NHWC", mean=mean, std=std)
    scores = [score for _, score in found(model).values()]
    assert scores == pytest.approx(SHARES, abs=0.001)


def test_yolox_boxes_that_are_decoded_in_the_file_are_read_as_yolo(tmp_path: Path) -> None:
    graph = Graph("yolo_columns")
    session = open_session(graph.write(tmp_path / "a.onnx"))
    assert proposed(session, plain(), NAMES).decoder == "yolo"


def test_phrases_cost_no_run_and_unions_are_suppressed_together(tmp_path: Path) -> None:
    model = detector(tmp_path, Graph(), unions={"creature": ["cat", "person"]}, colors="RGB")
    (encoding,) = model.encode([plain()])
    model._session = None  # a second run would fail
    cats, creatures = model.detect(encoding, ["the cats", "creatures"])
    assert [each.score for each in cats] == pytest.approx([0.8], abs=0.001)
    assert creatures == cats
    with pytest.raises(ToolError, match="knows no 'dog'"):
        model.detect(encoding, ["dog"])


def test_a_color_before_the_noun_is_judged_in_the_box(tmp_path: Path) -> None:
    model = detector(tmp_path, Graph(), categories=["cat", "dog", "orange"], colors="RGB")
    picture = plain(color=(200, 30, 30))
    (encoding,) = model.encode([picture])
    red, blue, any_color = model.detect(encoding, ["red cat", "blue cats", "cat"])
    assert red == any_color
    assert blue == []
    assert "orange" in COLORS
    assert model.detect(encoding, ["orange"]) == model.detect(encoding, ["oranges"])


def test_boxes_below_the_least_score_are_left_out(tmp_path: Path) -> None:
    encoding = OnnxEncoding(
        np.array([[0, 0, 9, 9], [20, 20, 30, 30]], np.float32),
        np.array([[0.5, 0, 0], [MIN_SCORE / 2, 0, 0]], np.float32),
        plain(),
    )
    assert len(detector(tmp_path, Graph()).detect(encoding, ["cat"])[0]) == 1


def test_another_layout_gives_the_model_another_name(tmp_path: Path) -> None:
    names = {detector(tmp_path, Graph(), letterbox=each).model_id for each in ("corner", "centre")}
    assert len(names) == 2
    assert all(name.startswith("yolox.onnx@") for name in names)


def no_onnx(path: Path) -> None:
    path.write_bytes(b"\x89PNG, and nothing of the sort" * 20)


def truncated(path: Path) -> None:
    Graph().write(path)
    path.write_bytes(path.read_bytes()[:-300])


def of_a_later_opset(path: Path) -> None:
    Graph(opset=999).write(path)


@pytest.mark.parametrize("breaks", [no_onnx, truncated, of_a_later_opset])
def test_a_broken_file_is_one_line(breaks: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    breaks(path)
    with pytest.raises(OnnxError, match="onnxruntime cannot load it") as error:
        OnnxDetector.from_pretrained(path)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


def test_a_missing_file_and_a_missing_layout_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(OnnxError, match="no such file"):
        OnnxDetector.from_pretrained(tmp_path / "none.onnx")
    path = Graph().write(tmp_path / "a.onnx")
    with pytest.raises(OnnxError, match=r"viper setup model .*a\.onnx writes it"):
        OnnxDetector.from_pretrained(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": [8, 8]}, "32 to 2048"),
        ({"size": [96, 96, 96]}, "size"),
        ({"decoder": "eval"}, "decoder"),
        ({"fill": 300}, "0 to 255"),
        ({"std": [1.0, 0.0, 1.0]}, "std: expected no 0"),
        ({"scale": float("inf")}, "finite"),
        ({"categories": []}, "categories"),
        ({"categories": ["cat", "cat", "dog"]}, "each name once"),
        ({"synonyms": {"cow": ["ox"]}}, "names of categories"),
        ({"anything": 1}, "anything"),
    ],
)
def test_a_wrong_layout_is_one_line_with_the_key(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words) as error:
        detector(tmp_path, Graph(), **changes)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize("decoder", ["yolox", "yolo", "detr"])
def test_outputs_that_do_not_fit_the_categories_are_one_line(decoder: str, tmp_path: Path) -> None:
    model = detector(tmp_path, Graph(), categories=["one", "two"], decoder=decoder)
    with pytest.raises(OnnxError, match=r"\[1, 189, 8\].*with 2 categories"):
        model.encode([plain()])


@pytest.mark.parametrize("changes", [{"size": [32, 96]}, {"axes": "NHWC"}])
def test_another_input_than_that_of_the_file_is_one_line(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(OnnxError, match="cannot run: .*Expected: 96") as error:
        detector(tmp_path, Graph(), **changes).encode([plain()])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_numbers_that_are_not_finite_are_no_empty_picture(family: str, tmp_path: Path) -> None:
    model = detector(tmp_path, Graph(family, times=(float("nan"),) * 3))
    with pytest.raises(OnnxError, match="finite numbers everywhere"):
        model.encode([plain()])


def test_scores_that_are_no_probabilities_are_one_line(tmp_path: Path) -> None:
    model = detector(tmp_path, Graph("yolo_rows", times=(9.0,) * 3))
    with pytest.raises(OnnxError, match=r"scores up to 7\.2; expected probabilities"):
        model.encode([plain()])


def test_pictures_of_one_pixel_and_of_a_strip_are_taken(tmp_path: Path) -> None:
    model = detector(tmp_path, Graph())
    for picture in (plain(1, 1), plain(3000, 1)):
        assert len(model.encode([picture])) == 1


def test_outputs_without_rows_are_an_empty_picture() -> None:
    layout = Layout(size=(SIDE, SIDE), decoder="detr", categories=NAMES)
    for count in (len(NAMES), len(NAMES) + 1):
        boxes, scores = decoded(layout, [np.zeros((1, 0, 4)), np.zeros((1, 0, count))])
        assert boxes.shape == (0, 4) and scores.shape == (0, len(NAMES))


def test_every_error_is_one_of_ours() -> None:
    assert issubclass(OnnxError, ViperError)


def test_a_real_detector_finds_what_people_marked() -> None:
    path = real("models/yolox_nano.onnx")
    from viper.models.media import read_picture

    picture = read_picture(real("photos/coco128/images/000000000025.jpg"))
    session = open_session(path)
    layout: Layout = proposed(session, picture)
    assert (layout.decoder, layout.colors, layout.letterbox) == ("yolox", "BGR", "corner")
    model = OnnxDetector(session, layout, "real")
    (encoding,) = model.encode([picture])
    (giraffes,) = model.detect(encoding, ["giraffes"])
    assert giraffes[0].score > 0.8
    x0, y0, x1, y1 = giraffes[0].box
    assert (x1 - x0) > 100 and (y1 - y0) > 200
