from pathlib import Path

import numpy as np
import pytest

from viper_lab.world import clips
from viper_lab.world.clips import ClipStore, render_clip, sample_clip
from viper_lab.world.scene import CLIP_FRAMES, CLIP_HEIGHT, CLIP_WIDTH


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

    monkeypatch.setattr(clips, "render_clip", refuse)
    assert store[1].seed == truth.seed
