"""``viper setup model`` and the profile ``photo-lite`` that it completes."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.commands.test_bad_input import refused, viper
from tests.endpoint.model import KEY, fenced
from tests.evaluate.official import real
from tests.models.llm.openai_server import OpenAIServer, Received, said
from tests.models.vision.onnx_graphs import NAMES, Graph, plain
from viper.commands import setup
from viper.errors import ModelError
from viper.profiles import load_profile, read_profile
from viper.profiles.files import default_profile, state_dir, with_values
from viper.profiles.inventory import inventory

Capture = pytest.CaptureFixture[str]
YOLO = Graph("yolo_columns", times=(1.0,) * 3, metadata=(("names", str(dict(enumerate(NAMES)))),))


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("VIPER_HOME", str(tmp_path / "home"))
    for name in ("VIPER_PROFILE", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


@pytest.fixture
def picture(tmp_path: Path) -> str:
    Image.fromarray(plain()).save(tmp_path / "plain.png")
    return str(tmp_path / "plain.png")


@pytest.fixture
def model(tmp_path: Path, capsys: Capture, picture: str) -> Path:
    """A tiny detector that is set up."""
    path = YOLO.write(tmp_path / "tiny.onnx")
    code, out, err = viper(capsys, "setup", "model", str(path), "--picture", picture)
    assert code == 0, err
    return path


def program(tmp_path: Path, *lines: str) -> str:
    path = tmp_path / "program.py"
    path.write_text("\n    ".join(["def execute_command(image):", *lines]))
    return str(path)


def test_the_layout_is_written_shown_and_registered(
    tmp_path: Path, capsys: Capture, picture: str, home: Path
) -> None:
    path = YOLO.write(tmp_path / "tiny.onnx")
    code, out, _ = viper(
        capsys, "setup", "model", str(path), "--picture", picture, "--licence", "MIT"
    )
    assert code == 0
    assert "layout   yolo, 96 x 96 NCHW RGB, letterbox centre, 3 categories" in out
    assert "licence  MIT" in out
    assert "found    cat 0.80 at (16, 8, 80, 72) in plain.png" in out
    layout = tomllib.loads(path.with_suffix(".toml").read_text())
    assert layout["categories"] == list(NAMES)
    assert layout["synonyms"]["fire hydrant"][0] == "hydrant"
    assert layout["unions"]["animal"] == ["cat"] and "vehicle" not in layout["unions"]
    detector = read_profile("photo-lite").roles["detector"]
    assert (detector.backend, detector.model) == ("onnx", str(path))
    (state,) = [each for each in inventory(load_profile("photo-lite")) if each.role == "detector"]
    assert state.place == "folder" and state.size_bytes == path.stat().st_size


def test_the_first_detector_makes_photo_lite_the_default(
    tmp_path: Path, capsys: Capture, picture: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = YOLO.write(tmp_path / "tiny.onnx")
    line = ("setup", "model", str(path), "--picture", picture)
    monkeypatch.setenv("VIPER_PROFILE", "cpu")
    code, out, _ = viper(capsys, *line)
    assert code == 0 and "default" not in out and "--profile photo-lite" in out
    monkeypatch.delenv("VIPER_PROFILE")
    assert "photo-lite is now the default profile" in viper(capsys, *line)[1]
    assert default_profile() == "photo-lite"
    code, out, err = viper(capsys, "run", picture, "how many of these?", "--like", "16,8,80,72")
    assert (code, out) == (0, "1\n"), err
    (home / "config.toml").write_text('profile = "cpu"\n')
    assert "default" not in viper(capsys, *line)[1] and default_profile() == "cpu"


def test_eighty_categories_without_names_are_those_of_coco(tmp_path: Path, capsys: Capture) -> None:
    path = Graph(categories=80).write(tmp_path / "coco.onnx")
    assert viper(capsys, "setup", "model", str(path))[0] == 0
    layout = tomllib.loads(path.with_suffix(".toml").read_text())
    assert (layout["decoder"], layout["categories"][-1]) == ("yolox", "toothbrush")
    assert layout["unions"]["thing"] == ["*"]


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("yolox", ("yolox", "BGR", "corner")),
        ("yolo_rows", ("yolo", "RGB", "centre")),
        ("yolo_columns", ("yolo", "RGB", "centre")),
        ("detr_sigmoid", ("detr", "RGB", "none")),
        ("detr_softmax", ("detr", "RGB", "none")),
    ],
)
@pytest.mark.parametrize("axes", ["NCHW", "NHWC"])
def test_the_family_is_seen_in_the_graph(
    family: str, expected: tuple[str, ...], axes: str, tmp_path: Path, capsys: Capture
) -> None:
    path = Graph(family, axes=axes).write(tmp_path / "a.onnx")
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    names = str(tmp_path / "names.txt")
    code, _, err = viper(capsys, "setup", "model", str(path), "--categories", names)
    assert code == 0, err
    layout = tomllib.loads(path.with_suffix(".toml").read_text())
    assert (layout["decoder"], layout["colors"], layout["letterbox"]) == expected
    assert (layout["axes"], layout["size"]) == (axes, [96, 96])
    assert (layout["mean"] != [0, 0, 0]) == (family == "detr_softmax")


def test_a_size_that_the_graph_leaves_open_is_that_of_the_metadata(
    tmp_path: Path, capsys: Capture
) -> None:
    open_size = {"sides": ("height", "width")}
    path = Graph(**open_size, categories=80, metadata=(("imgsz", "[96, 96]"),)).write(
        tmp_path / "a.onnx"
    )
    assert viper(capsys, "setup", "model", str(path))[0] == 0
    path = Graph(**open_size, categories=80).write(tmp_path / "b.onnx")
    line = refused(capsys, "setup", "model", str(path))
    assert "expected one picture of a fixed size" in line


def test_an_edited_layout_is_kept_unless_forced(model: Path, capsys: Capture, picture: str) -> None:
    beside = model.with_suffix(".toml")
    beside.write_text(beside.read_text().replace('licence = "unknown"', 'licence = "mine"'))
    code, out, _ = viper(capsys, "setup", "model", str(model), "--picture", picture)
    assert code == 0 and "licence  mine" in out and "kept as it is" in out
    assert "exists; edit it" in refused(capsys, "setup", "model", str(model), "--licence", "MIT")
    assert viper(capsys, "setup", "model", str(model), "--force")[0] == 0
    assert 'licence = "unknown"' in beside.read_text()


def test_agpl_in_the_metadata_is_a_warning(tmp_path: Path, capsys: Capture) -> None:
    licensed = Graph(categories=80, metadata=(("license", "AGPL-3.0 License (\x1b[31mx)"),))
    code, out, _ = viper(capsys, "setup", "model", str(licensed.write(tmp_path / "a.onnx")))
    assert code == 0
    assert "warning  the AGPL" in out and "\x1b" not in out


@pytest.mark.parametrize(
    "names",
    [
        "__import__('os').mkdir('EVIL')",
        "[" * 5000,
        "{0: 'a'",
        "{" + "0: 'a'," * 90_000 + "}",
        "(x for x in [])",
        "3",
    ],
)
def test_hostile_metadata_names_nothing(
    names: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Graph(metadata=(("names", names),)).write(tmp_path / "a.onnx")
    line = refused(capsys, "setup", "model", str(path))
    assert "its outputs fit 3 categories, and 0 are named; name them with --categories" in line
    assert not Path("EVIL").exists()


def no_detector(path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    size = [1, 3, 96, 96]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["a"], ["b"])], "g",
        [helper.make_tensor_value_info("a", kind, size)],
        [helper.make_tensor_value_info("b", kind, size)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (no_detector, r"[1, 3, 96, 96]; expected a detector"),
        (lambda path: path.write_bytes(b"no"), "onnxruntime cannot load it"),
        (lambda path: None, "no such file"),
        (lambda path: Graph(opset=999).write(path), "onnxruntime cannot load it"),
        (lambda path: Graph(categories=5).write(path), "fit 5 categories, and 0 are named"),
    ],
)
def test_bad_files_are_one_line(
    write: Any, words: str, tmp_path: Path, capsys: Capture, home: Path
) -> None:
    write(tmp_path / "a.onnx")
    assert words in refused(capsys, "setup", "model", str(tmp_path / "a.onnx"))
    assert not home.exists() and not (tmp_path / "a.toml").exists()


def test_a_list_of_another_number_of_names_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    path = Graph().write(tmp_path / "a.onnx")
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    names = str(tmp_path / "names.txt")
    line = refused(capsys, "setup", "model", str(path), "--categories", names)
    assert "and 2 are named" in line
    (tmp_path / "names.txt").write_bytes(b"\xff\na\x1b[31m\nb\n")  # any text is a name
    assert viper(capsys, "setup", "model", str(path), "--categories", names)[0] == 0
    code, _, err = viper(capsys, "setup", "model", str(path), "--categories", "absent.txt")
    assert code == 2 and "absent.txt" in err and "Traceback" not in err


def test_a_new_detector_drops_the_calibration_of_another(
    model: Path, tmp_path: Path, capsys: Capture, home: Path
) -> None:
    own = home / "profiles" / "photo-lite.toml"
    table = '\n[confidence.question]\nweights = [1.0]\n[tools]\nfind_scope = "crop"\n'
    own.write_text(own.read_text() + table)
    assert viper(capsys, "setup", "model", str(model))[0] == 0
    assert "confidence" in own.read_text()  # the same detector
    other = YOLO.write(tmp_path / "other.onnx")
    assert viper(capsys, "setup", "model", str(other))[0] == 0
    assert "confidence" not in own.read_text() and "find_scope" in own.read_text()


@pytest.mark.parametrize("changed", ["layout", "weights"])
def test_a_changed_detector_of_the_same_name_drops_the_calibration(
    changed: str, model: Path, capsys: Capture, home: Path
) -> None:
    own, beside = home / "profiles" / "photo-lite.toml", model.with_suffix(".toml")
    own.write_text(own.read_text() + "\n[confidence.question]\nweights = [1.0]\n")
    if changed == "layout":
        beside.write_text(beside.read_text().replace('colors = "RGB"', 'colors = "BGR"'))
    else:
        replace(YOLO, box=(8, 8, 40, 40)).write(model)
    assert viper(capsys, "setup", "model", str(model))[0] == 0
    assert "confidence" not in own.read_text() and str(model) in own.read_text()


def test_without_a_model_file_one_line_says_what_to_fetch(capsys: Capture, picture: str) -> None:
    line = refused(capsys, "run", picture, "how many cats?", "--profile", "photo-lite")
    assert "yolox_nano.onnx (Apache-2.0, 3.7 MB) and run: viper setup model" in line


def test_a_program_runs_without_a_key(
    model: Path, tmp_path: Path, capsys: Capture, picture: str
) -> None:
    lines = ("cats = ImagePatch(image).find('cats')", "return measure(cats[0])['color']")
    code, out, err = viper(
        capsys, "exec", program(tmp_path, *lines), picture, "--profile", "photo-lite"
    )
    assert (code, out) == (0, "orange\n"), err


@pytest.mark.parametrize("call", ["exists('dog')", "find('dog')", "find('cat')[0].exists('dog')"])
def test_a_category_that_is_unknown_is_no_answer(
    call: str, model: Path, tmp_path: Path, capsys: Capture, picture: str
) -> None:
    source = program(tmp_path, f"return bool(ImagePatch(image).{call})")
    code, out, err = viper(capsys, "exec", source, picture, "--profile", "photo-lite")
    assert code == 1 and "the detector knows no 'dog'" in out + err
    code, out, _ = viper(capsys, "exec", source, picture, "--profile", "photo-lite", "--json")
    record = json.loads(out)
    assert record["answer"] is None and record["failure"]["kind"] == "tool"
    assert record["warnings"][0]["detail"] == {"words": ["dog"]}
    assert record["tool_calls"][-1]["unknown"] == "dog"


def test_a_property_that_no_pixel_tells_is_no_answer(
    model: Path, tmp_path: Path, capsys: Capture, picture: str
) -> None:
    source = program(
        tmp_path, "return ImagePatch(image).find('cat')[0].verify_property('cat', 'happy')"
    )
    code, out, err = viper(capsys, "exec", source, picture, "--profile", "photo-lite")
    assert code == 1 and "sees colors and sizes only, not 'happy cat'" in out + err


def test_colors_are_verified_and_chosen(
    model: Path, tmp_path: Path, capsys: Capture, picture: str
) -> None:
    lines = (
        "cat = ImagePatch(image).find('orange cats')[0]",
        "flags = [cat.verify_property('cat', color) for color in ('orange', 'blue')]",
        "return f\"{flags} {cat.best_text_match(['green', 'orange', 'white'])}\"",
    )
    source = program(tmp_path, *lines)
    code, out, err = viper(capsys, "exec", source, picture, "--profile", "photo-lite")
    assert (code, out) == (0, "[True, False] orange\n"), err


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Programs that an endpoint writes in turn, the last one again and again."""
    programs: list[str] = []

    def write(request: Received, index: int) -> str:
        return fenced(programs.pop(0) if len(programs) > 1 else programs[0])

    server = OpenAIServer(otherwise=said(write))
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    yield programs
    server.close()


def counting(name: str) -> str:
    return f"def execute_command(image):\n    return len(ImagePatch(image).find({name!r}))"


def test_words_that_it_cannot_see_are_withheld_by_name(
    model: Path, capsys: Capture, picture: str, endpoint: list[str]
) -> None:
    endpoint.append(counting("person"))
    query = "How many people are swimming near the shark?"
    run = ("run", picture, query, "--profile", "photo-lite")
    code, out, err = viper(capsys, *run)
    assert code == 1
    assert "photo-lite cannot see 'swimming', 'shark'." in out + err
    assert "--force prints the guess" in out + err
    assert viper(capsys, *run, "--force")[:2] == (0, "0\n")
    code, out, err = viper(capsys, "run", picture, "How many people?", "--profile", "photo-lite")
    assert (code, out) == (0, "0\n") and "warning" not in err


def test_a_word_that_a_later_program_replaced_is_a_warning(
    model: Path, capsys: Capture, picture: str, endpoint: list[str]
) -> None:
    endpoint.extend([counting("kitten"), counting("cat")])
    code, out, err = viper(capsys, "run", picture, "How many cats?", "--profile", "photo-lite")
    assert (code, out) == (0, "1\n")
    assert "The detector knows no 'kitten'" in err


def test_an_answer_in_spite_of_an_unknown_word_is_withheld(
    model: Path, capsys: Capture, picture: str, endpoint: list[str]
) -> None:
    endpoint.append(
        "def execute_command(image):\n    try:\n        return len(ImagePatch(image).find('dog'))"
        "\n    except Exception:\n        return 0"
    )
    code, out, err = viper(capsys, "run", picture, "How many cats?", "--profile", "photo-lite")
    assert code == 1 and "The detector knows no 'dog'" in out + err


def test_a_run_that_ends_at_an_unknown_word_says_so(
    model: Path, capsys: Capture, picture: str, endpoint: list[str]
) -> None:
    endpoint.append(counting("dog"))
    code, out, err = viper(capsys, "run", picture, "How many cats?", "--profile", "photo-lite")
    assert code == 1 and "the detector knows no 'dog'" in out + err


def test_setup_offers_it_where_no_hub_answers(
    model: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    def silent(_: Any) -> None:
        raise ModelError("no hub")

    monkeypatch.setattr(setup, "check_hub", silent)
    code, out, err = viper(capsys, "setup")
    assert code == 0, out + err
    assert "writer   none: viper exec and viper apply" in out
    assert default_profile() == "photo-lite"


def test_setup_names_the_file_to_fetch_where_no_hub_answers(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_: Any) -> None:
        raise ModelError("no hub")

    monkeypatch.setattr(setup, "check_hub", silent)
    code, out, _ = viper(capsys, "setup")
    assert code == 1 and out.count("setup model") == 1
    assert out.splitlines()[-1].startswith("offline  fetch https://github.com/Megvii-BaseDetection")


def test_a_profile_with_a_layout_that_is_broken_is_one_line(
    model: Path, tmp_path: Path, capsys: Capture, picture: str
) -> None:
    model.with_suffix(".toml").write_text('decoder = "yolo"\n')
    source = program(tmp_path, "return 1")
    line = refused(capsys, "exec", source, picture, "--profile", "photo-lite")
    assert "tiny.toml" in line
    assert any("tiny.toml" in each for each in load_profile("photo-lite").problems())


def test_a_copy_with_other_values_keeps_the_detector(model: Path) -> None:
    path = state_dir() / "profiles" / "photo-lite.toml"
    text = with_values(path, "mine", {"trials": 2})
    assert str(model) in text


def test_the_real_file_is_set_up(tmp_path: Path, capsys: Capture) -> None:
    source = real("models/yolox_nano.onnx")
    (tmp_path / "nano.onnx").symlink_to(source)
    picture = str(real("photos/coco128/images/000000000025.jpg"))
    code, out, err = viper(
        capsys, "setup", "model", str(tmp_path / "nano.onnx"), "--picture", picture
    )
    assert code == 0, err
    assert "layout   yolox, 416 x 416 NCHW BGR, letterbox corner, 80 categories" in out
    assert "found    giraffe 0.8" in out


def test_faces_are_found_by_their_own_model(
    model: Path, tmp_path: Path, capsys: Capture, picture: str
) -> None:
    source = program(tmp_path, "return len(ImagePatch(image).find('faces'))")
    code, out, err = viper(capsys, "exec", source, picture, "--profile", "photo-lite")
    assert (code, out) == (0, "0\n"), err


def test_the_color_of_an_object_that_is_unknown_is_no_answer(
    model: Path, tmp_path: Path, capsys: Capture, picture: str
) -> None:
    source = program(tmp_path, "return ImagePatch(image).verify_property('sky', 'orange')")
    code, out, err = viper(capsys, "exec", source, picture, "--profile", "photo-lite")
    assert code == 1 and "the detector knows no 'sky'" in out + err
