"""Routines that run in the parent: what they get, what they may answer, how they fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import HEIGHT, WIDTH, Bench, picture
from viper.api.library import Library, library_for
from viper.errors import UsageError
from viper.run_result import RunResult

FILE = '''
import numpy as np
from viper import ImagePatch, VideoSegment, routine

SEEN = []


@routine(tool=True)
def mean_of(tools, patch: ImagePatch) -> float:
    """The mean of a patch's pixels."""
    pixels = tools.pixels(patch)
    SEEN.append(pixels.shape)
    return float(pixels.mean())


@routine(tool=True)
def shape_of(tools, patch: ImagePatch) -> list:
    """The shape of a patch's pixels."""
    return list(tools.pixels(patch).shape)


@routine(tool=True)
def widest(patch: ImagePatch, name: str) -> ImagePatch:
    """The widest object of a name."""
    return max(patch.find(name), key=lambda found: found.width)


@routine(tool=True)
def answer_about(tools, patch: ImagePatch) -> str:
    """Ask the model itself."""
    with tools.model("vqa") as vqa:
        return vqa.answer(vqa.encode([tools.pixels(patch)]), ["what color is this?"])[0][0]


@routine(tool=True)
def frames_of(tools, segment: VideoSegment) -> int:
    """How many frames a segment has."""
    return len(tools.frames(segment))


@routine(tool=True)
def broken(x: int) -> int:
    """Fail."""
    raise OSError("the file is gone")


@routine(tool=True)
def odd(x: int) -> object:
    """Answer what no program can hold."""
    return object()


@routine(tool=True)
def sorted_lefts(tools, patches: list) -> list:
    """Use functions of the API."""
    ordered = tools.routine("sort_patches_left_to_right")(patches)
    best = tools.routine("best_image_match")(ordered, ["red"])
    return [best.left, tools.routine("mean_of")(best)]


@routine(tool=True)
def unknown_threshold(tools, x: int) -> float:
    """A typo."""
    return tools.threshold("detektor.threshold")


@routine(tool=True)
def leaves(x: int) -> int:
    """End the process."""
    raise SystemExit(3)


@routine
def mean_of_widest(patch: ImagePatch, name: str) -> float:
    """Both of them."""
    return mean_of(widest(patch, name))
'''


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    path = tmp_path_factory.mktemp("routines") / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    return library_for(f"abstract+{path}")


def ran(library: Library, program: str, media: Any = None) -> RunResult:
    code = f"def execute_command(image):\n    p = ImagePatch(image)\n    return {program}\n"
    with Bench([], library) as bench:
        given = picture() if media is None else media
        return bench.reasoner.execute(code, given, task="question")


def test_pixels_are_rows_of_rgb(library: Library) -> None:
    result = ran(library, "str(shape_of(p.crop(0, 0, 20, 30)))")
    assert result.answer is not None and result.answer.value == "[30, 20, 3]"


def test_a_patch_of_the_parent_asks_the_same_tools_and_can_be_answered(library: Library) -> None:
    program = "str([widest(p, 'cube').left, widest(p, 'cube').find('cube')[0].right, p.width])"
    result = ran(library, program)
    assert result.answer is not None and result.answer.value == f"[70.0, 90.0, {WIDTH}]"


def test_pure_routines_call_tool_routines(library: Library) -> None:
    result = ran(library, "str(mean_of_widest(p, 'cube'))")
    assert result.answer is not None and result.answer.value == "128.0"


def test_tool_routines_use_the_functions_of_the_api(library: Library) -> None:
    result = ran(library, "str(sorted_lefts(p.find('cube')))")
    assert result.answer is not None and result.answer.value == "[10.0, 128.0]"


def test_each_call_stands_in_the_trace_once(library: Library) -> None:
    calls = ran(library, "str(mean_of_widest(p, 'cube'))").trace.trials[0].tool_calls
    assert [(call.index, call.tool, call.line) for call in calls] == [
        (0, "widest", 3),
        (1, "mean_of", 3),
    ]
    assert calls[0].result["kind"] == "patch"
    assert not calls[1].cached


def test_models_are_at_hand(library: Library) -> None:
    result = ran(library, "answer_about(p)")
    assert result.answer is not None and result.answer.value == "red"


def test_frames_of_a_segment(library: Library) -> None:
    clip = np.zeros((8, HEIGHT, WIDTH, 3), np.uint8)
    code = (
        "def execute_command(video, question, possible_answers):\n"
        "    return str(frames_of(VideoSegment(video).trim(2, 5)))\n"
    )
    with Bench([], library) as bench:
        result = bench.reasoner.execute(code, clip, task="question")
    assert result.answer is not None and result.answer.value == "3"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("str(broken(1))", "broken: OSError: the file is gone"),
        ("str(odd(1))", "odd: its result: a value of type object cannot be sent"),
        ("str(leaves(1))", "leaves: SystemExit: 3"),
        ("str(unknown_threshold(1))", "no threshold 'detektor.threshold' in this profile; known: "),
        ("str(mean_of(3))", "expected a patch or a segment, got int"),
        ("str(mean_of())", "mean_of"),
        ("str(widest(p, 'absent'))", "widest: ValueError"),
    ],
)
def test_what_goes_wrong_is_a_failed_call(program: str, message: str, library: Library) -> None:
    failure = ran(library, program).failure
    assert failure is not None and failure.kind in ("tool", "below_threshold")
    assert message in failure.message


def test_a_patch_that_reaches_beyond_its_picture_is_clipped(library: Library) -> None:
    result = ran(library, "str(shape_of(ImagePatch(image, 0, 0, 10 ** 9, 5)))")
    assert result.answer is not None and result.answer.value == f"[5, {WIDTH}, 3]"


def test_a_name_of_the_hub_s_own_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from viper import routine\n\n\n@routine(tool=True)\ndef pixels(x: int) -> int:\n"
        '    """Clash."""\n    return x\n'
    )
    with pytest.raises(UsageError, match="the routine name 'pixels' is taken"):
        Bench([], library_for(str(path)))
