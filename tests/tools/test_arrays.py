"""Arrays of pixels: what programs of API ``numpy`` map, make and leave in the trace."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import Bench
from viper.errors import ToolError
from viper.models.media import media_from
from viper.record import record_from_json
from viper.run_result import RunResult
from viper.schema import Trace, to_json
from viper.strategies.replay import Replayer
from viper.tools.call_log import from_plain, logged
from viper.tools.pixels import MAX_MADE_PIXELS, picture_of
from viper.tools.toolbox import with_pictures_of


def scene() -> Any:
    return np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)


def executed(program: str, media: Any = None, api: str = "look+numpy") -> RunResult:
    with Bench([]) as bench:
        return bench.reasoner.execute(program, scene() if media is None else media, api=api)


def failure_of(program: str, **given: Any) -> str:
    failure = executed(program, **given).failure
    assert failure is not None
    return failure.message


def test_a_view_has_the_pixels_of_the_patch() -> None:
    result = executed(
        "patch = ImagePatch(image).crop(10, 20, 40, 50)\n"
        "array = to_array(patch)\n"
        "answer = f'{array.shape} {array.tolist()}'"
    )
    part = scene()[60 - 50 : 60 - 20, 10:40]
    assert result.answer is not None and result.answer.value == f"{part.shape} {part.tolist()}"
    (call,) = (call for call in result.trace.tool_calls if call.tool == "to_array")
    assert call.result == {"kind": "view", "fields": ["image0", 10, 10, 40, 40]}


def test_a_made_picture_comes_as_a_copy_that_may_be_written() -> None:
    result = executed(
        "array = to_array(grayscale(ImagePatch(image)))\narray[:] = 7\nanswer = int(array.max())"
    )
    assert result.answer is not None and result.answer.value == 7


def test_a_frame_of_a_video_comes_as_a_copy() -> None:
    result = executed(
        "frame = VideoSegment(video).frame_from_index(2)\nanswer = str(int(to_array(frame).max()))",
        media=np.stack([np.full((8, 9, 3), number, np.uint8) for number in range(4)]),
    )
    assert result.answer is not None and result.answer.value == "2"


MASK = """
import numpy as np
patch = ImagePatch(image)
mask = np.zeros((60, 80), bool)
mask[10:20, 30:50] = True
made = to_patch({array}, patch)
show(made, "where it is")
part = components(made, patch)[0]
answer = f"{{part['area']}} {{part['patch'].left}} {{part['patch'].upper}}"
"""


@pytest.mark.parametrize(
    "array", ["mask", "mask * np.uint8(255)", "np.dstack([mask * np.uint8(255)] * 3)"]
)
def test_a_picture_made_from_an_array_is_used_shown_and_made_again(array: str) -> None:
    result = executed(MASK.format(array=array))
    assert result.answer is not None and result.answer.value == "200 30 50"
    stored: Trace = record_from_json(Trace, json.loads(json.dumps(to_json(result.trace))))
    media = with_pictures_of(media_from(scene()), stored.tool_calls)
    (shown,) = (call.result["fields"] for call in stored.tool_calls if call.tool == "show")
    pixels = media.pixels(shown[0])
    assert pixels.shape == (60, 80, 3) and (pixels == 255).sum() == 600


def test_a_program_with_arrays_is_replayed() -> None:
    result = executed(MASK.format(array="mask"))
    with Bench([]) as bench, Replayer(bench.reasoner.components.library) as replayer:
        program = result.program or ""
        replay = replayer.replay(
            program, result.trace.tool_calls, result.trace.query, media_from(scene())
        )
    assert replay.whole and any(event.what == "answer" for event in replay.events)


def test_without_the_api_there_are_no_arrays() -> None:
    said = "arrays of pixels need the API numpy, as in --api look+numpy"
    assert said in failure_of("answer = to_array(ImagePatch(image))", api="look")
    assert said in failure_of("answer = to_patch([1], ImagePatch(image))", api="abstract")


@pytest.mark.parametrize(
    ("array", "said"),
    [
        ("[1, 2]", "expected an array of pixels, got list"),
        ("np.zeros((4, 4))", "got float64 [4, 4]"),
        ("np.zeros((4, 4, 4), np.uint8)", "got uint8 [4, 4, 4]"),
        ("np.zeros((4,), np.uint8)", "got uint8 [4]"),
        ("np.zeros((0, 4), np.uint8)", "the array [0, 4] has no pixels"),
        ("np.zeros((900, 900), np.uint8)", "limit is"),
    ],
)
def test_what_is_no_picture_is_refused(array: str, said: str) -> None:
    program = f"import numpy as np\nanswer = to_patch({array}, ImagePatch(image))"
    assert said in failure_of(program)


def test_a_picture_may_not_be_too_large() -> None:
    side = int(MAX_MADE_PIXELS**0.5) + 1
    with pytest.raises(ToolError, match="at most 4,000,000"):
        picture_of(np.broadcast_to(np.uint8(0), (side, side)))


def test_an_array_that_is_no_picture_is_logged_by_shape() -> None:
    assert logged(np.zeros((2, 2))) == {"kind": "array", "shape": [2, 2], "dtype": "float64"}
    kept = logged(scene())
    assert (from_plain(kept) == scene()).all()
    with pytest.raises(ToolError, match="is no picture"):
        from_plain({**kept, "png": "AAAA"})


def test_an_agent_keeps_arrays_from_turn_to_turn() -> None:
    replies = [
        "<code>import numpy as np\npixels = to_array(image_patch)</code>",
        "<code>show(to_patch(pixels > 128 if pixels.ndim == 2 else pixels[..., 0] > 128,"
        " image_patch), 'bright red')\nint(pixels[0, 0, 0])</code>",
        "The answer is done.",
    ]
    with Bench(replies, parts={"sees": frozenset({"llm"})}, prompt_style="chat") as bench:
        bench.llm.sees_pictures = True
        result = bench.reasoner.run(scene(), "is it red?", strategy="look", api="look+numpy")
        assert "to_array" in bench.llm.calls[0].prompt
    assert result.trace.turns[1].result == str(int(scene()[0, 0, 0]))
