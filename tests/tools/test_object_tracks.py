"""Objects keep their number through a video, and routines say where they go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import supervision
from scipy import ndimage

from tests.evaluate.official import real
from viper.api.image_patch import ImagePatch
from viper.api.prelude import PRELUDE
from viper.api.routines.tracks import count_crossings, crosses, dwell, enters, patch_at, speed
from viper.api.runtime import ImageHandle
from viper.errors import ToolError
from viper.models.media import Media, media_from, write_mp4
from viper.models.vision.roles import Detection, Pixels
from viper.sandbox import Sandbox
from viper.tools import tracking
from viper.tools.models import ModelSet
from viper.tools.session import ToolSession, media_arguments
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox

WIDTH, HEIGHT, FPS, SECONDS = 160, 120, 8, 20

# Crossings of the line at half the height, counted by eye on stills 0.1 to 0.16 s apart before any
# program ran, with the number of the first frame whose object is beyond the line.
CARS = {"up": [80, 212], "down": [208, 333]}

# The small detector knows cars from the side; from above it calls them so, "car" seldom.
FROM_ABOVE = ["car", "bus", "truck", "cell phone", "suitcase", "airplane"]

BOTTLES = {"up": [206, 530, 530, 948], "down": [350, 678, 826, 1057]}


class RedDetector:
    """Finds red things by their color, each with a score that its brightness decides."""

    model_id = "red"

    def encode(self, images: Sequence[Pixels]) -> list[Pixels]:
        return list(images)

    def detect(self, encoding: Pixels, phrases: Sequence[str]) -> list[list[Detection]]:
        red = encoding[..., 0].astype(int) - encoding[..., 1] > 60
        labels, _ = ndimage.label(red)
        boxes = [
            Detection((float(x.start), float(y.start), float(x.stop), float(y.stop)), 0.5)
            for y, x in ndimage.find_objects(labels)
        ]
        return [boxes if phrase == "ball" else [] for phrase in phrases]


def places(time: float) -> list[tuple[float, float]]:
    """Centres of two balls, x and y from the top: one goes right and back, one falls."""
    there = 20 + 12 * time if time < 10 else 260 - 12 * time
    return [(there, 20.0), (120.0, 10 + 5.5 * time)]


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Media:
    frames = np.full((SECONDS * FPS, HEIGHT, WIDTH, 3), 90, np.uint8)
    for number, frame in enumerate(frames):
        for x, y in places(number / FPS):
            frame[max(0, round(y) - 8) : max(0, round(y) + 8), round(x) - 8 : round(x) + 8] = (
                230, 40, 40,
            )  # fmt: skip
    path = tmp_path_factory.mktemp("video") / "balls.mp4"
    write_mp4(path, frames)
    return media_from(path)


@pytest.fixture
def session(media: Media) -> ToolSession:
    models = ModelSet({"detector": RedDetector})
    return Toolbox(models, ToolSettings()).session(media.for_run())


def tracked(session: ToolSession, name: str = "ball", rate: float = 8) -> dict[str, Any]:
    video = media_arguments(session.media)["video"]
    found: dict[str, Any] = session.call("track_objects", (video, name, rate), {}, None)
    return found


def test_each_object_is_one_track(session: ToolSession) -> None:
    found = tracked(session)
    assert found["times"][:3] == [0, 0.125, 0.25] and len(found["times"]) == SECONDS * FPS
    assert len(found["clips"]) == 3  # of 64 frames
    assert len(found["tracks"]) == 2
    by_side = sorted(found["tracks"], key=lambda boxes: boxes[0][1])
    for boxes, number in zip(by_side, (0, 1), strict=True):
        for frame, left, lower, right, upper in boxes:
            x, y = places(found["times"][frame])[number]
            if 8 <= y <= HEIGHT - 8:
                assert abs((left + right) / 2 - x) < 3
                assert abs(HEIGHT - (lower + upper) / 2 - y) < 3
    assert session.calls[-1].judged_by == "detector.threshold"
    assert not session.calls[-1].note


def test_the_same_boxes_give_the_tracks_of_the_library(session: ToolSession) -> None:
    """Beside the library used plainly: its numbers, and the boxes that the detector gave."""
    found = tracked(session)
    plain = supervision.ByteTrack(
        track_activation_threshold=0.6, lost_track_buffer=16, minimum_matching_threshold=0.8
    )
    expected: dict[int, list[list[float]]] = {}
    detector = RedDetector()
    for index, (part, number) in enumerate(found["places"]):
        pixels = session.media.pixels(f"{found['clips'][part]}#{number}")
        boxes = detector.detect(pixels, ["ball"])[0]
        given = supervision.Detections(
            xyxy=np.array([box.box for box in boxes], np.float32).reshape(-1, 4),
            confidence=np.full(len(boxes), 0.9, np.float32),  # a score of .5 above a threshold of 0
        )
        result = plain.update_with_detections(given)
        for box, name in zip(result.xyxy.tolist(), result.tracker_id.tolist(), strict=True):
            expected.setdefault(name, []).append(
                [index, box[0], HEIGHT - box[3], box[2], HEIGHT - box[1]]
            )
    assert found["tracks"] == [boxes for boxes in expected.values() if len(boxes) > 1]


def test_what_may_be_lost_or_swapped_is_noted(
    session: ToolSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    detect = RedDetector.detect

    def blind(self: RedDetector, encoding: Pixels, phrases: Sequence[str]) -> Any:
        time = len(seen) / FPS
        seen.append(time)
        return [[]] if 4 <= time < 8 else detect(self, encoding, phrases)

    seen: list[float] = []
    monkeypatch.setattr(RedDetector, "detect", blind)
    assert len(tracked(session)["tracks"]) == 4
    assert session.calls[-1].note == "objects appear or vanish inside the picture 4 times"


@pytest.mark.parametrize(("rate", "said"), [(0, "expected up to 240"), (1e9, "expected up to 240")])
def test_a_rate_out_of_range_is_refused(session: ToolSession, rate: float, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        tracked(session, rate=rate)


def test_too_many_frames_are_refused_with_a_way_out(
    session: ToolSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "MOST_FRAMES", 100)
    with pytest.raises(ToolError, match="160 frames at 8 a second; at most 100 .* skim or focus"):
        tracked(session)


def test_without_the_library_the_command_that_installs_it_is_said(
    session: ToolSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "supervision", None)
    monkeypatch.setattr(tracking, "_library", tracking.LazyModule("supervision"))
    with pytest.raises(ToolError, match="pip install 'viper-reasoner\\[tracks\\]'"):
        tracked(session)


PROGRAM = """
def execute_command(video):
    balls = VideoSegment(video).tracks("ball", rate=8)
    middle = ((0, 60), (160, 60))
    falling = [ball for ball in balls if crosses(ball, middle, "down")]
    return [
        len(balls), count_crossings(balls, middle), crosses(falling[0], middle),
        patch_at(falling[0], 10), VideoSegment(video).moments(lambda frame: frame.exists("ball")),
    ]
"""


def test_a_program_follows_objects(session: ToolSession) -> None:
    with Sandbox(prelude=PRELUDE) as sandbox:
        arguments = media_arguments(session.media)
        outcome = sandbox.run(PROGRAM, tools=session, entry="execute_command", args=arguments)
    assert outcome.failure is None
    count, crossings, times, patch, moments = outcome.value
    assert (count, crossings) == (2, 1)
    assert times == [pytest.approx(50 / 5.5, abs=0.3)]
    assert patch.fields[0].startswith("clip-") and patch.fields[1:5] == pytest.approx(
        (112, 47, 128, 63), abs=4
    )
    assert moments == [(0, pytest.approx(19, abs=1))]  # one look a second


HANDLE = ImageHandle("clip-0-1-1#0", 100, 100, lambda *_, **__: None)


def track(*centres: tuple[float, float], size: float = 4) -> dict[str, Any]:
    """A track with a place each second."""
    half = size / 2
    patches = [ImagePatch._at(HANDLE, x - half, y - half, x + half, y + half) for x, y in centres]
    times = [float(second) for second in range(len(centres))]
    return {"id": 1, "start": 0.0, "end": times[-1], "times": times, "patches": patches}


LINE = ((0, 50), (100, 50))


@pytest.mark.parametrize(
    ("centres", "expected"),
    [
        ([(20, 40), (20, 60)], [1]),
        ([(20, 60), (20, 40)], [1]),
        ([(20, 40), (20, 60), (20, 40)], [1, 2]),
        ([(20, 40), (20, 45)], []),
        ([(20, 40), (20, 50), (20, 50.2), (20, 60)], [2]),  # stands on it for a while
        ([(20, 40), (20, 50.3), (20, 49.8), (20, 50.2), (20, 40)], []),  # trembles, and turns
        ([(20, 49.9), (20, 50.1), (20, 49.9)], []),
        ([(120, 40), (120, 60)], []),  # beside its end
        ([(95, 40), (115, 60)], []),  # meets it beyond its end
        ([], []),
    ],
)
def test_a_crossing_is_from_clearly_one_side_to_the_other(
    centres: list[tuple[float, float]], expected: list[float]
) -> None:
    made = track(*centres) if centres else {"times": [], "patches": []}
    assert crosses(made, LINE) == expected
    assert count_crossings([made, made], LINE) == 2 * len(expected)


def test_a_direction_counts_one_way() -> None:
    both = track((20, 40), (20, 60), (20, 40))
    assert [crosses(both, LINE, each) for each in ("up", "down", "left", "right")] == [
        [1], [2], [], [],
    ]  # fmt: skip
    oblique = track((40, 10), (10, 40))
    assert [bool(crosses(oblique, ((0, 0), (50, 50)), each)) for each in ("up", "left")] == [1, 1]


BOX, CORNERS = (40, 0, 60, 100), [(40, 0), (60, 0), (60, 100), (40, 100)]


@pytest.mark.parametrize("zone", [BOX, CORNERS, ImagePatch._at(HANDLE, *BOX)])
def test_a_zone_is_entered_and_left(zone: Any) -> None:
    walk = track(*((x, 50) for x in (10, 30, 50, 55, 70, 50, 10)))
    assert enters(walk, zone) == [1.5, 4.5]
    assert dwell(walk, zone) == 3
    assert enters(track((50, 50), (50, 60)), zone) == []  # was there from the start
    assert dwell(track((50, 50), (50, 60)), zone) == 1
    assert dwell(track((10, 50), (20, 50)), zone) == 0


def test_a_trembling_box_stays_in_its_zone() -> None:
    times = [0.2 * number for number in range(8)]
    patches = [ImagePatch._at(HANDLE, x, 0, x, 4) for x in (30, 45, 45, 39, 45, 45, 30, 30)]
    walk = {"times": times, "patches": patches}
    assert enters(walk, BOX) == [pytest.approx(0.1)]
    assert dwell(walk, BOX) == pytest.approx(1)


def test_speed_is_the_way_by_the_time() -> None:
    assert speed(track((0, 0), (3, 4), (3, 4))) == 2.5
    assert speed(track((0, 0))) == 0
    assert patch_at(track((0, 0), (30, 0), (60, 0)), 1.4).horizontal_center == 30


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda walk: crosses("car", LINE), "expected a track of VideoSegment.tracks, not str"),
        (lambda walk: crosses(walk, ((1, 1), (1, 1))), "two equal points"),
        (lambda walk: crosses(walk, ((1, 1),)), "line must be two points"),
        (lambda walk: crosses(walk, ((1, 1, 1), (2, 2, 2))), "line must be two points"),
        (lambda walk: crosses(walk, LINE, "north"), "expected left, right, up, down or None"),
        (lambda walk: enters(walk, (60, 0, 40, 100)), "zone is empty"),
        (lambda walk: enters(walk, [(0, 0), (1, 1)]), "zone must be 3 to 100 points, or a box"),
        (lambda walk: dwell(walk, (0, 0, float("nan"), 1)), "zone must be finite"),
    ],
)
def test_what_is_no_line_or_zone_is_said(call: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        call(track((0, 0), (1, 1)))


@pytest.mark.parametrize(
    ("file", "names", "rate", "expected"),
    [
        ("car-detection.mp4", FROM_ABOVE, 6.25, CARS),
        ("bottle-detection.mp4", ["bottle"], 7.5, BOTTLES),
    ],
)
def test_crossings_in_real_videos_are_those_counted_by_eye(
    file: str, names: list[str], rate: float, expected: dict[str, list[int]], tmp_path: Path
) -> None:
    """Each count is right within one, and each crossing is within a second of one of these."""
    from viper_lab.photographs.job import PhotographJob

    job = PhotographJob(real("videos").parent, tmp_path)
    components = job.profile().components()
    try:
        session = components.toolbox.session(media_from(real("videos") / file))
        video = media_arguments(session.media)["video"]
        found = session.call("track_objects", (video, names, rate), {}, None)
    finally:
        components.close()
    width, height = found["size"]
    handle = ImageHandle("clip-0-1-1#0", width, height, lambda *_, **__: None)
    tracks = [
        {
            "times": [found["times"][frame] for frame, *_ in boxes],
            "patches": [ImagePatch._at(handle, *box) for _, *box in boxes],
        }
        for boxes in found["tracks"]
    ]
    line = ((0, height / 2), (width, height / 2))
    with av.open(str(real("videos") / file)) as opened:
        read_times = [float(frame.time) for frame in opened.decode(video=0)]
    for direction, frames in expected.items():
        times = sorted(time for each in tracks for time in crosses(each, line, direction))
        assert abs(len(times) - len(frames)) <= 1, (direction, times)
        by_eye = [read_times[frame] for frame in frames]
        assert all(min(abs(time - each) for each in by_eye) < 1 for time in times)
