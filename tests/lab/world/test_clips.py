from pathlib import Path

import numpy as np
import pytest

from viper_lab.world import clips as clips_module
from viper_lab.world.clips import Clip, ClipStore, contact_radius, render_clip, sample_clip
from viper_lab.world.events import (
    EVENT_KINDS,
    comes_before,
    event_phrase,
    is_consequence,
    short_names,
)
from viper_lab.world.scene import CLIP_FRAMES, CLIP_HEIGHT, CLIP_WIDTH, ClipEvent, SceneObject
from viper_lab.world.vocabulary import HELD_OUT_COMBINATIONS


@pytest.fixture(scope="module")
def clips() -> list[Clip]:
    return [sample_clip("train", i) for i in range(40)]


def test_a_clip_is_the_same_every_time_and_differs_between_splits() -> None:
    first, again, other = sample_clip("val", 3), sample_clip("val", 3), sample_clip("test", 3)
    assert first.objects == again.objects and first.events == again.events
    assert np.array_equal(first.positions, again.positions, equal_nan=True)
    assert first.seed != other.seed


def test_objects_are_few_and_named_apart(clips: list[Clip]) -> None:
    for clip in clips:
        assert 2 <= len(clip.objects) <= 4
        assert len(set(clip.names)) == len(clip.names)
        assert clip.positions.shape == (CLIP_FRAMES, len(clip.objects), 3)


def test_held_out_pairs_are_in_the_test_split_only(clips: list[Clip]) -> None:
    def pairs(clip: Clip) -> set[tuple[str, str]]:
        return {(thing.colour, thing.shape) for thing in clip.objects}

    assert not any(pairs(clip) & HELD_OUT_COMBINATIONS for clip in clips)
    assert any(pairs(sample_clip("test", i)) & HELD_OUT_COMBINATIONS for i in range(20))


def test_each_clip_tells_a_story(clips: list[Clip]) -> None:
    assert {event.kind for clip in clips for event in clip.events} == set(EVENT_KINDS)
    for clip in clips:
        assert 2 <= len(clip.events) <= 5
        kinds = [{e.kind for e in clip.events if e.actor == i} for i in range(len(clip.objects))]
        assert max(map(len, kinds)) >= 2
        assert len({(e.kind, e.actor) for e in clip.events}) == len(clip.events)


def test_events_can_be_ordered_save_a_hit_and_the_start_it_causes(clips: list[Clip]) -> None:
    for clip in clips:
        for i, first in enumerate(clip.events):
            for second in clip.events[i + 1 :]:
                assert comes_before(first, second) or is_consequence(second, clip.events)


def test_events_are_what_the_positions_show(clips: list[Clip]) -> None:
    for clip in clips:
        moved = np.linalg.norm(np.diff(clip.positions[..., :2], axis=0), axis=-1)  # [T - 1, N]
        for event in clip.events:
            middle = event.start + 2
            speeds = moved[:, event.actor]
            if event.kind == "start":
                assert speeds[event.start] > 0.05
                assert event.start == 0 or speeds[event.start - 1] < 1e-5
            elif event.kind == "stop" and event.end < CLIP_FRAMES:
                assert speeds[event.start] > 0.03 and speeds[event.start + 2] < 1e-5
            elif event.kind == "hit":
                assert event.target is not None
                here = clip.positions[middle]
                gap = np.linalg.norm(here[event.actor, :2] - here[event.target, :2])
                radii = [contact_radius(clip.objects[i]) for i in (event.actor, event.target)]
                assert gap == pytest.approx(sum(radii), abs=0.04)
            elif event.kind == "appear":
                track = clip.positions[:, event.actor, 2]
                assert np.isnan(track[event.start - 1]) and not np.isnan(track[event.start])
            elif event.end < CLIP_FRAMES:
                heights = clip.positions[:, event.actor, 2]
                assert not heights[event.end] > 0


def test_phrases_name_actor_and_target() -> None:
    here = (0.0, 0.0, 0.0)
    things = (
        SceneObject("cube", "red", "metal", "big", here),
        SceneObject("ball", "red", "metal", "big", here),
    )
    hit = ClipEvent("hit", 0, 4, 9, 1)
    assert event_phrase(hit, things) == "the red cube hits the red ball"
    assert event_phrase(ClipEvent("fall", 1, 4, 9), things) == "the red ball falls off the table"
    assert short_names(0, things) == ["cube"]


def test_a_stored_clip_is_the_rendered_one_but_for_compression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ClipStore(tmp_path, "val")
    stored, truth = store[1], render_clip(sample_clip("val", 1))
    assert stored.frames.shape == (CLIP_FRAMES, CLIP_HEIGHT, CLIP_WIDTH, 3)
    assert np.abs(stored.frames.astype(int) - truth.frames).mean() < 4
    assert stored.events == truth.events and stored.objects == truth.objects
    assert np.array_equal(stored.boxes, truth.boxes, equal_nan=True)

    def refuse(*_: object) -> None:
        raise AssertionError("rendered again")

    monkeypatch.setattr(clips_module, "render_clip", refuse)
    assert store[1].seed == truth.seed
