"""Samples of the embedded world as evaluation and mining take them."""

from __future__ import annotations

from typing import Any

from viper.ace.mine import Labelled
from viper.evaluate.scorers import answer_correct, choice_correct, ground_correct
from viper.reasoner import RunResult
from viper.world.queries.sample import WorldSample


def sample_media(sample: WorldSample) -> Any:
    """The sample's picture ``uint8 [H, W, 3]`` or clip ``uint8 [T, H, W, 3]``, rendered now."""
    if sample.task == "choice":
        from viper.world.clips import render_clip, sample_clip

        return render_clip(sample_clip(sample.split, sample.media_index)).frames
    from viper.world.layout import sample_scene
    from viper.world.render import render_scene

    return render_scene(sample_scene(sample.split, sample.media_index)).image


def is_right(sample: WorldSample, result: RunResult) -> bool:
    """Whether the run answered rightly: IoU at least 0.5, equal words, or the right option."""
    answer = result.answer
    if answer is None:
        return False
    if sample.task == "ground":
        assert sample.box is not None
        return ground_correct(answer.box, sample.box)
    if sample.task == "choice":
        return choice_correct(answer.choice_index, int(sample.answer))
    return answer_correct(answer.value, str(sample.answer))


def labelled(sample: WorldSample) -> Labelled:
    """The sample for mining."""
    return Labelled(
        query=sample.query,
        media=lambda: sample_media(sample),
        score=lambda result: float(is_right(sample, result)),
        kind=sample.query_type,
    )
