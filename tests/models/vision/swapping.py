"""One line of a profile puts a checkpoint in a role: the proof that each backend's tests use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from viper.embedded import EMBEDDED
from viper.profiles import load_profile
from viper.reasoner import Reasoner

IMAGE_PROGRAMS = {
    "detector": "str(len(patch.find('red cube')) >= 0)",
    "matcher": "patch.best_text_match(['red cube', 'how far'])",
    "depth": "str(patch.compute_depth() == patch.compute_depth())",
    "vqa": "'answer: ' + patch.simple_query('what is this?')",
}
CLIP_PROGRAMS = {"video": "str(segment.get_video_segment_of_event('a red cube').num_frames >= 0)"}


def answer_with(role: str, line: str, folder: Path) -> Any:
    """What the embedded profile answers with one role given by ``line`` instead.

    Args:
        line: as it stands under ``[roles]``, such as ``{ backend = "dpt", model = "…" }``.
        folder: where the profile is written.
    """
    text = (EMBEDDED / "embedded.toml").read_text("utf-8")
    text, replaced = re.subn(rf"(?m)^{role} = .*$", lambda _: f"{role} = {line}", text)
    assert replaced == 1
    path = folder / f"{role}.toml"
    path.write_text(text, encoding="utf-8")
    pixels = np.random.default_rng(0).integers(0, 255, (40, 64, 3), np.uint8)
    with Reasoner(load_profile(str(path)), preload=False) as reasoner:
        if role in CLIP_PROGRAMS:
            code = (
                "def execute_command(video, question, possible_answers):\n"
                "    segment = VideoSegment(video)\n"
                f"    return {CLIP_PROGRAMS[role]}\n"
            )
            result = reasoner.execute(code, np.stack([pixels] * 8), task="question")
        else:
            code = (
                "def execute_command(image):\n    patch = ImagePatch(image)\n"
                f"    return {IMAGE_PROGRAMS[role]}\n"
            )
            result = reasoner.execute(code, pixels, task="question")
        assert result.answer is not None, result.failure
        assert role in reasoner.components.toolbox.models.loaded()
        return result.answer.value
