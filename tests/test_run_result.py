"""Results in Python and in notebooks: pictures, pages, values."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageShow

from tests.strategies.bench import Bench, picture
from tests.web.traces import COLOURS
from viper.api.library import Library
from viper.errors import UsageError
from viper.models.media import media_from
from viper.profiles import load_profile
from viper.reasoner import Reasoner, RunOptions
from viper.run_result import RunResult
from viper.sandbox import Ref
from viper.strategies.answers import outside_value
from viper.web.trace_page import run_page

RED = "def execute_command(image):\n    return 'red'"
BOX = "def execute_command(image):\n    return ImagePatch(image).find('cube')[0]"
HOSTILE = "</iframe><script>alert(1)</script>\" onload='x' <style>body{display:none}</style>"


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench([]) as made:
        parts = made.reasoner.components
        page = partial(run_page, library=Library(), toolbox=parts.toolbox, mode="strict")
        made.reasoner = Reasoner(replace(parts, page=page))
        yield made


def run(bench: Bench, program: str, query: str = "?") -> RunResult:
    return bench.reasoner.execute(program, picture(), query)


class Elements(HTMLParser):
    """The elements of a text with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(bench: Bench, tmp_path: Path) -> None:
    result = run(bench, RED, HOSTILE)
    shown = result._repr_html_()
    assert shown is not None
    ((tag, attributes),) = Elements(shown).found
    assert tag == "iframe" and attributes["sandbox"] == "allow-scripts"
    result.html(tmp_path / "new" / "page.html")
    page = (tmp_path / "new" / "page.html").read_text("utf-8")
    assert attributes["srcdoc"] == page and "Content-Security-Policy" in page
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page


def test_a_page_has_depth_maps_and_the_command(bench: Bench, tmp_path: Path) -> None:
    result = run(bench, COLOURS)
    result.html(tmp_path / "page.html", "viper run 'x y.png' what")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert 'class="shade"' in page and "viper run &#39;x y.png&#39; what" in page


def test_a_profile_gives_pages(bench: Bench) -> None:
    result = run(bench, RED)
    page = load_profile("embedded").components().page
    assert page is not None
    assert "<!doctype html>" in page(result.trace, result.media, "").lower()


def test_a_result_without_a_page(bench: Bench, tmp_path: Path) -> None:
    result = replace(run(bench, RED), page=None)
    assert result._repr_html_() is None
    with pytest.raises(UsageError, match="no page"):
        result.html(tmp_path / "page.html")


def test_a_notebook_shows_the_picture_that_is_saved(bench: Bench, tmp_path: Path) -> None:
    result = run(bench, BOX)
    content = result._repr_png_()
    assert content is not None
    result.save(str(tmp_path / "answer.png"))
    saved = np.asarray(Image.open(tmp_path / "answer.png"))
    assert (np.asarray(Image.open(BytesIO(content))) == saved).all()
    assert (saved[200, 50] == (255, 64, 160)).all()  # the left side of the box, five times as large


def test_there_is_no_picture_of_no_answer(bench: Bench) -> None:
    assert run(bench, "def execute_command(image):\n    return nonsense")._repr_png_() is None


@pytest.mark.parametrize("name", ["answer.txt", "answer", "answer.psd"])
def test_pictures_are_saved_in_formats_that_can_be_written(
    bench: Bench, name: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="unknown picture format"):
        run(bench, BOX).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_show_opens_a_window(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Image.Image] = []
    monkeypatch.setattr(ImageShow, "show", lambda image, *_, **__: opened.append(image))
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    run(bench, BOX).show()
    assert [image.width for image in opened] == [500]


def test_show_displays_in_a_notebook(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[Image.Image] = []
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    display = SimpleNamespace(display=displayed.append)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    run(bench, BOX).show()
    assert [image.width for image in displayed] == [500]


def returned(bench: Bench, expression: str, media: object = None) -> object:
    """The value of a program that returns an expression, as information beside its answer."""
    name = "image" if media is None else "video"
    program = f"import numpy as np\ndef execute_command({name}):\n    return 'red', {expression}"
    result = bench.reasoner.execute(program, picture() if media is None else media, "?")
    assert result.answer is not None and result.value[0] == "red", result.failure
    return result.value[1]


@pytest.mark.parametrize(
    ("expression", "kind"),
    [("np.mean([1, 2])", float), ("np.array([3])[0]", int), ("np.any([1])", bool), ("1", int)],
)
def test_numbers_are_plain_numbers(bench: Bench, expression: str, kind: type) -> None:
    value = returned(bench, f"{{'a': [{expression}]}}")
    assert isinstance(value, dict) and type(value["a"][0]) is kind


def test_patches_are_boxes_from_the_top_left_corner(bench: Bench) -> None:
    cubes = [(10.0, 40.0, 20.0, 50.0), (70.0, 5.0, 90.0, 25.0)]
    assert run(bench, BOX).value == cubes[0]
    assert returned(bench, "ImagePatch(image).find('cube')") == cubes
    assert returned(bench, "{'them': set(ImagePatch(image).find('ring'))}") == {"them": cubes[:1]}
    assert returned(bench, "ImagePatch(image).crop(3, 3, 3, 9)") is None


def test_pictures_are_arrays_and_segments_are_frames(bench: Bench) -> None:
    pixels = returned(bench, "image")
    assert isinstance(pixels, np.ndarray) and (pixels == picture()).all()
    clip = np.zeros((8, 60, 100, 3), np.uint8)
    assert returned(bench, "[video, VideoSegment(video, 2, 5)]", clip) == [range(8), range(2, 5)]


@pytest.mark.parametrize(
    "fields",
    [(), ("image7", 0, 0, 9, 9), ("image0", "a", 0, 9, 9), (3, "x", 4), (3, 0, float("inf"))],
)
@pytest.mark.parametrize("kind", ["patch", "image", "segment", "video", "strange"])
def test_invented_references_are_nothing(fields: tuple[object, ...], kind: str) -> None:
    value = outside_value(Ref(kind, fields), media_from(picture()))  # type: ignore[arg-type]
    assert value is None or len(value) in (0, 60)  # no frames, or the picture itself


@pytest.mark.parametrize(
    ("program", "task", "options", "value"),
    [
        ("return 3", "question", (), "3"),
        ("return 'red', {'why': 1}", "question", (), "red"),
        ("return ImagePatch(image).exists('cube')", "question", (), "yes"),
        ("return 1", "choice", "red; blue", "blue"),
        ("return 'yes'", "statement", (), True),
        ("return ImagePatch(image).find('cube')[0]", "ground", (), (10.0, 40.0, 20.0, 50.0)),
        ("return nonsense", "question", (), None),
    ],
)
def test_a_value_has_one_type_for_a_task(
    program: str, task: str, options: object, value: object
) -> None:
    with Bench([f"def execute_command(image):\n    {program}"], trials=1) as bench:
        result = bench.reasoner.run(picture(), "?", task=task, options=options)
    assert (result.value, type(result.value)) == (value, type(value)), result.failure


def test_a_value_has_the_same_type_without_a_program(bench: Bench) -> None:
    result = bench.reasoner.run(picture(), "how many are there?", strategy="vqa", task="question")
    assert result.answer is not None and type(result.value) is str


def test_the_value_of_an_edit_is_its_picture() -> None:
    program = "def execute_command(image):\n    return ImagePatch(image).crop(0, 0, 20, 10)"
    with Bench([program]) as bench:
        result = bench.reasoner.run(picture(), "cut it", task="edit")
    assert result.value is result.picture and result.value.shape == (10, 20, 3)


def test_a_result_has_its_trials_and_confidence(bench: Bench) -> None:
    result = run(bench, BOX)
    assert result.confidence is None and result.trials == result.trace.trials
    assert result.answer is not None
    sure = replace(result.trace, answer=replace(result.answer, confidence=0.5))
    assert replace(result, trace=sure).confidence == 0.5
    assert run(bench, "def execute_command(image):\n    return nonsense").confidence is None


def test_tool_calls_count_from_the_corner_of_the_answer(bench: Bench) -> None:
    result = run(bench, BOX)
    (call,) = result.tool_calls
    assert result.answer is not None and call["result"][0]["box"] == list(result.answer.box or ())


@pytest.mark.parametrize("copied", [lambda it: pickle.loads(pickle.dumps(it)), copy.deepcopy])
def test_results_can_be_pickled_and_copied(
    bench: Bench, copied: Callable[[RunResult], RunResult]
) -> None:
    program = "def execute_command(image):\n    return ImagePatch(image).crop(0, 0, 20, 10)"
    result = bench.reasoner.execute(program, picture(), task="edit")
    again = copied(result)
    assert (again.answer, again.trace, again.page) == (result.answer, result.trace, None)
    assert result.value is not None and (again.value == result.value).all()
    assert (again.media.images[0] == picture()).all() and again.picture is not None


def test_what_people_print_takes_a_few_lines(bench: Bench) -> None:
    result = bench.reasoner.execute(BOX, [picture()] * 9)
    profile = load_profile("embedded")
    shown = [result, result.media, profile, bench.reasoner.components, RunOptions(trials=2)]
    assert all(len(repr(each)) < 250 for each in shown), shown
    assert "image1 100 x 60" in repr(result.media) and "embedded" in repr(profile)
    assert len(repr(result.trace)) < 1_500


def test_the_example_of_the_readme_prints_a_result_without_an_answer(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    example = readme.split("```python\n")[1].split("```")[0].splitlines()
    nothing = run(bench, "def execute_command(image):\n    return nonsense")
    exec(example[-1], {"result": nothing})
    assert example[-1].startswith("print(") and capsys.readouterr().out.startswith("None None")


def test_a_failure_names_returned_patches_in_words(bench: Bench) -> None:
    several = "def execute_command(image):\n    return ImagePatch(image).find('cube')"
    failure = bench.reasoner.execute(several, picture(), task="statement").failure
    assert failure is not None and "returned [patch, patch]; expected" in failure.message
