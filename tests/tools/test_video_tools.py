"""A video is read more closely than its kept frames show."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from viper.api.prelude import PRELUDE
from viper.errors import MediaError, ToolError
from viper.models.media import CLIP_FPS, Media, media_from, write_mp4
from viper.sandbox import Ref, Sandbox
from viper.tools.models import ModelSet
from viper.tools.session import ToolSession, media_arguments
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox, with_pictures_of

SECONDS, LIGHT = 100, 61.375

FIND_LIGHT = """
def execute_command(video):
    overview = VideoSegment(video).overview(10)
    lit = [i for i, frame in enumerate(overview.frame_iterator()) if mean_color(frame)[0] > 128]
    close = overview.focus(overview.time_of(lit[0]) - 5, 5)
    for index, frame in enumerate(close.frame_iterator()):
        if mean_color(frame)[0] > 128:
            return close.focus(close.time_of(index), 0.5)
"""


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Media:
    """A video in which a light goes on."""
    frames = np.full((SECONDS * CLIP_FPS, 48, 64, 3), 20, np.uint8)
    frames[round(LIGHT * CLIP_FPS) :] = 200
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    write_mp4(path, frames)
    return media_from(path)


@pytest.fixture
def session(media: Media) -> ToolSession:
    return Toolbox(ModelSet({}), ToolSettings()).session(media.for_run())


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(prelude=PRELUDE) as running:
        yield running


FIND_CHANGE = """
def execute_command(video):
    segment = VideoSegment(video)
    return [*segment.changes(5), *segment.skim(60, 70).changes(5)], {"nothing": segment.skim(70, 90).changes()}
"""  # noqa: E501


def test_frames_are_spent_where_the_picture_changes(session: ToolSession, sandbox: Sandbox) -> None:
    arguments = media_arguments(session.media)
    outcome = sandbox.run(FIND_CHANGE, tools=session, entry="execute_command", args=arguments)
    assert outcome.failure is None
    spans, others = outcome.value
    assert len(spans) == 2 and others == {"nothing": []}
    assert all(start < LIGHT <= end <= start + 1.2 for start, end in spans)


def test_changes_are_in_order_of_time_and_the_greatest(tmp_path: Path) -> None:
    frames = np.full((40 * CLIP_FPS, 48, 64, 3), 20, np.uint8)
    for second, value in ((10, 60), (20, 63), (30, 140)):
        frames[second * CLIP_FPS :] = value
    write_mp4(tmp_path / "clip.mp4", frames)
    session = Toolbox(ModelSet({}), ToolSettings()).session(media_from(tmp_path / "clip.mp4"))
    video = media_arguments(session.media)["video"]
    for count, times in ((2, [10, 30]), (9, [10, 20, 30])):
        spans = session.call("changed_spans", (video, count), {}, None)
        assert all(start < time <= end for (start, end), time in zip(spans, times, strict=True))


def test_a_change_at_the_very_end_is_seen(tmp_path: Path) -> None:
    frames = np.full((round(39.5 * CLIP_FPS), 48, 64, 3), 20, np.uint8)
    frames[39 * CLIP_FPS :] = 200
    write_mp4(tmp_path / "clip.mp4", frames)
    session = Toolbox(ModelSet({}), ToolSettings()).session(media_from(tmp_path / "clip.mp4"))
    video = media_arguments(session.media)["video"]
    ((_, end),) = session.call("changed_spans", (video, 8), {}, None)
    assert end >= 39
    for count in (0, -1, 10_000):
        with pytest.raises(ToolError, match="expected 1 to 450"):
            session.call("changed_spans", (video, count), {}, None)


def test_a_file_with_few_key_frames_is_read_all_the_same(tmp_path: Path) -> None:
    frames = np.full((200 * CLIP_FPS, 48, 64, 3), 20, np.uint8)
    frames[100 * CLIP_FPS : 120 * CLIP_FPS] = 200
    write_mp4(tmp_path / "clip.mp4", frames, keys=10_000)
    session = Toolbox(ModelSet({}), ToolSettings()).session(media_from(tmp_path / "clip.mp4"))
    video = media_arguments(session.media)["video"]
    overview = session.call("read_clip", (video, None, None, 20, True), {}, None)
    lit = session.media.frames(overview.fields[0]).mean(axis=(1, 2, 3)) > 128
    assert len(lit) == 20 and lit.sum() == 2


def test_a_program_looks_coarsely_and_then_closely(session: ToolSession, sandbox: Sandbox) -> None:
    arguments = media_arguments(session.media)
    outcome = sandbox.run(FIND_LIGHT, tools=session, entry="execute_command", args=arguments)
    assert outcome.failure is None
    times = session.media.frame_times(outcome.value.fields[0])
    assert times[0] <= LIGHT <= times[-1] and len(times) == 8
    pictures = [
        picture for call in session.calls if call.tool == "mean_color" for picture in call.args
    ]
    assert len(pictures) <= 10 + 64


def test_frames_of_a_clip_are_pictures_of_the_video_whoever_reads_them(
    session: ToolSession,
) -> None:
    video = media_arguments(session.media)["video"]
    clip = session.call("read_clip", (video, 60, 64, 32), {}, None)
    assert clip.fields[1:] == (32, 64, 48)
    assert session.call("frame_times", (clip,), {}, None)[:2] == [60, 60.125]
    again = with_pictures_of(session.media, session.calls)
    levels = [again.pixels(f"{clip.fields[0]}#{number}").mean() > 128 for number in range(32)]
    assert levels == [60 + number / CLIP_FPS >= LIGHT for number in range(32)]
    part = Ref("segment", (clip.fields[0], 8, 12))
    assert session.call("frame_times", (part,), {}, None) == [61, 61.125, 61.25, 61.375]
    assert session.call("read_clip", (part, None, None, 4), {}, None).fields[1] == 4
    last = session.call("read_clip", (video, 98, 102, 4), {}, None)  # a second apart to the end
    assert session.call("frame_times", (last,), {}, None) == [98, 99, 99.875]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, 100, 3_600), "3,600 frames; expected 1 to 64"),
        ((0, 100, 0), "0 frames; expected 1 to 64"),
        ((120, 130, 8), "120 to 130 s; expected a part of the video, which is 100 s long"),
        ((9, 9, 8), "9 to 9 s; expected a part"),
    ],
)
def test_what_cannot_be_read_is_said(
    session: ToolSession, arguments: tuple[float, ...], said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        session.call("read_clip", (media_arguments(session.media)["video"], *arguments), {}, None)


@pytest.mark.parametrize("name", ["video1", "clip-0-1-8#1", "clip-0-1-888", "clip--1-1-8"])
def test_an_invented_video_is_none(session: ToolSession, name: str) -> None:
    with pytest.raises(ToolError, match="there is no video"):
        session.call("frame_times", (Ref("video", (name, 8, 64, 48)),), {}, None)


def test_a_video_whose_file_is_gone_says_so(media: Media, tmp_path: Path) -> None:
    moved = media.paths[0].rename(tmp_path / "moved.mp4")
    try:
        with pytest.raises(MediaError, match="its file, which is not there"):
            media.frames("clip-1000-1000-7")
    finally:
        moved.rename(media.paths[0])


def test_frames_without_a_file_have_no_times() -> None:
    session = Toolbox(ModelSet({}), ToolSettings()).session(
        media_from(np.zeros((4, 9, 9, 3), np.uint8))
    )
    with pytest.raises(MediaError, match="give the video as a file"):
        session.call("read_clip", (media_arguments(session.media)["video"], 0, 1, 2), {}, None)


@pytest.mark.parametrize("step", [0.25, 0.3, 1 / 3, 0.7])
def test_moments_are_looked_for_through_the_whole_video(
    session: ToolSession, sandbox: Sandbox, step: float
) -> None:
    program = f"""
def execute_command(video):
    return VideoSegment(video).moments(lambda frame: mean_color(frame)[0] > 128, step={step})
"""
    arguments = media_arguments(session.media)
    outcome = sandbox.run(program, tools=session, entry="execute_command", args=arguments)
    assert outcome.failure is None
    ((start, end),) = outcome.value
    assert start == pytest.approx(LIGHT, abs=step) and end == pytest.approx(
        SECONDS, abs=step + 0.125
    )


@pytest.fixture(scope="module")
def fading(tmp_path_factory: pytest.TempPathFactory) -> Media:
    """A light that is on from 30.5 to 47.25 s, in a file with a key frame every 5 s."""
    frames = np.full((SECONDS * CLIP_FPS, 48, 64, 3), 20, np.uint8)
    frames[round(30.5 * CLIP_FPS) : round(47.25 * CLIP_FPS)] = 200
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    write_mp4(path, frames, keys=5 * CLIP_FPS)
    return media_from(path)


@pytest.mark.parametrize(
    "answer", ["mean_color(frame)[0] > 128", "'no' if mean_color(frame)[0] < 128 else 'yes'"]
)
def test_changes_are_sought_between_two_looks(fading: Media, sandbox: Sandbox, answer: str) -> None:
    """Few looks at key frames, and as many more as find both borders by halves."""
    session = Toolbox(ModelSet({}), ToolSettings()).session(fading.for_run())
    program = f"""
def execute_command(video):
    return VideoSegment(video).moments(lambda frame: {answer}, step=8, within=0.125)
"""
    arguments = media_arguments(session.media)
    outcome = sandbox.run(program, tools=session, entry="execute_command", args=arguments)
    assert outcome.failure is None
    ((start, end),) = outcome.value
    assert start == pytest.approx(30.5, abs=0.125) and end == pytest.approx(47.25, abs=0.125)
    looked = [call for call in session.calls if call.tool == "mean_color"]
    assert 13 < len(looked) < 13 + 2 * 8
    video = arguments["video"]
    keys = session.call("read_clip", (video, 3, 99, 12, True), {}, None)
    times = session.call("frame_times", (keys,), {}, None)
    assert all(0 <= at - time <= 5 for at, time in zip(range(3, 99, 8), times, strict=True))
    assert keys.fields[0].endswith("-keys")


def test_looks_without_change_are_not_followed_up(fading: Media, sandbox: Sandbox) -> None:
    session = Toolbox(ModelSet({}), ToolSettings()).session(fading.for_run())
    program = """
def execute_command(video):
    return VideoSegment(video).moments(lambda frame: mean_color(frame)[0] > 250, 8, within=1)
"""
    arguments = media_arguments(session.media)
    outcome = sandbox.run(program, tools=session, entry="execute_command", args=arguments)
    assert outcome.value == []
    assert len([call for call in session.calls if call.tool == "mean_color"]) == 13


def test_a_part_of_a_clip_ends_where_the_clip_does(session: ToolSession) -> None:
    video = media_arguments(session.media)["video"]
    clip = session.call("read_clip", (video, 10, 20, 10), {}, None)
    assert session.call("segment_span", (clip,), {}, None) == (10, 20)
    part = session.call("read_clip", (clip, None, None, 5), {}, None)
    assert session.call("frame_times", (part,), {}, None) == [10, 12, 14, 16, 18]
    empty = Ref("segment", (clip.fields[0], 4, 4))
    assert session.call("segment_span", (empty,), {}, None) == (14, 14)
