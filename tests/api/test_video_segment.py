"""Frame ranges of segments, events that are there and events that are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.scripted import ScriptedClient
from viper.api import VideoHandle, VideoSegment
from viper.api.video_segment import after, before, during, trimmed


def span(segment: VideoSegment) -> tuple[int, int]:
    return (segment.start, segment.end)


def test_whole_video(video: VideoHandle) -> None:
    segment = VideoSegment(video)
    assert (segment.start, segment.end, segment.num_frames) == (0, 32, 32)
    assert video.shape == (32, 3, 120, 160)


def test_trim_is_relative_and_attributes_absolute(video: VideoHandle) -> None:
    segment = VideoSegment(video, 8, 24)
    assert span(segment.trim(2, 5)) == (10, 13)
    assert span(segment.trim(2, 5).trim(1)) == (11, 13)
    assert span(segment.trim()) == (8, 24)
    assert segment.trim(2, 5) == VideoSegment(segment, 2, 5) == VideoSegment(video, 10, 13)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(-5, 4, (8, 12)), (0, 99, (8, 24)), (6, 3, (14, 14)), (99, 120, (24, 24)), (3, -1, (11, 11))],
)
def test_trim_is_cut_off_at_the_segment(
    video: VideoHandle, start: int, end: int, expected: tuple[int, int]
) -> None:
    assert span(VideoSegment(video, 8, 24).trim(start, end)) == expected


def test_half_of_an_odd_length(video: VideoHandle) -> None:
    assert span(VideoSegment(video).trim(0, 32 / 3)) == (0, 10)
    with pytest.raises(TypeError, match="start must be a number"):
        VideoSegment(video).trim("0")


def test_frames(video: VideoHandle) -> None:
    segment = VideoSegment(video, 8, 11)
    frames = list(segment.frame_iterator())
    assert [frame._handle.id for frame in frames] == ["video0#8", "video0#9", "video0#10"]
    assert segment.frame_from_index(-1) == frames[-1]
    with pytest.raises(IndexError, match="frame -4 is outside the 3 frames"):
        segment.frame_from_index(-4)


def test_event_within_the_segment(video: VideoHandle, client: ScriptedClient) -> None:
    segment = VideoSegment(video, 4, 28)
    client.will("locate_event", [10, 15], [10, 15], [10, 15])
    assert span(segment.get_video_segment_of_event("the cube stops")) == (10, 15)
    assert span(segment.get_video_segment_before_event("the cube stops")) == (4, 10)
    assert span(segment.get_video_segment_after_event("the cube stops")) == (15, 28)
    assert client.calls[0] == ("locate_event", segment, "the cube stops")


def test_event_that_reaches_beyond_the_segment(video: VideoHandle, client: ScriptedClient) -> None:
    segment = VideoSegment(video, 12, 20)
    client.will("locate_event", [10, 15], [10, 15], [18, 30])
    assert span(segment.get_video_segment_of_event("e")) == (12, 15)
    assert span(segment.get_video_segment_before_event("e")) == (12, 12)
    assert span(segment.get_video_segment_after_event("e")) == (20, 20)


@pytest.mark.parametrize("when", ["of", "before", "after"])
def test_event_not_found_is_an_empty_segment(
    video: VideoHandle, client: ScriptedClient, when: str
) -> None:
    client.will("locate_event", [7, 7])
    found = getattr(VideoSegment(video), f"get_video_segment_{when}_event")("e")
    assert found.num_frames == 0
    assert found.caption_video("What?") == "" and found.simple_query("What?") == ""
    assert found.get_video_segment_after_event("e").num_frames == 0
    assert list(found.frame_iterator()) == []
    assert len(client.calls) == 1


def test_questions_reach_the_parent(video: VideoHandle, client: ScriptedClient) -> None:
    segment = VideoSegment(video)
    client.will("caption_video", "it rolls")
    client.will("simple_query", "a cube")
    client.will("select_answer", "b")
    assert segment.caption_video() == "it rolls"
    assert segment.simple_query("What moves?") == "a cube"
    assert segment.select_answer({"seen": "x"}, "q?", ("a", "b")) == "b"
    assert client.calls == [
        ("caption_video", segment, None),
        ("simple_query", segment, "What moves?"),
        ("select_answer", {"seen": "x"}, "q?", ["a", "b"]),
    ]


def test_only_videos_make_segments() -> None:
    with pytest.raises(TypeError, match="needs a video or a segment, not str"):
        VideoSegment("video0")


ranges = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: tuple(sorted(pair)))


@given(ranges, ranges)
def test_parts_stay_inside_and_do_not_meet(within, event) -> None:
    parts = [part(within, event) for part in (before, during, after)]
    for start, end in parts:
        assert within[0] <= start <= end <= within[1]
    lengths = [end - start for start, end in parts]
    if event[0] < event[1]:
        assert sum(lengths) == within[1] - within[0]
    else:
        assert lengths == [0, 0, 0]


@given(ranges, st.integers(-50, 50), st.integers(-50, 50))
def test_trimming_stays_inside(within, start, end) -> None:
    begin, stop = trimmed(within, start, end)
    assert within[0] <= begin <= stop <= within[1]
