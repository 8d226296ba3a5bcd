"""What a drawing with one box says about the way in which a model writes boxes."""

import json

import numpy as np
import pytest

from viper.commands.setup import probe_boxes
from viper.errors import ToolError
from viper.models.llm.messages import pictures_of
from viper.models.llm.scripted import ScriptedLLM
from viper.models.vision.detector_vlm import VlmDetector
from viper.models.vision.vlm import EndpointVLM


class Seeing(ScriptedLLM):
    """Writes the box of what is red, in its own way."""

    def __init__(self, way: str, key: str = "bbox_2d") -> None:
        super().__init__(sees_pictures=True)
        self.way, self.key, self.requests = way, key, 0

    def generate(self, prompts, sampling):  # type: ignore[no-untyped-def]
        self.requests += len(prompts)
        (picture,) = pictures_of(prompts[0])
        rows, columns = np.nonzero((picture.pixels == (255, 0, 0)).all(axis=2))
        height, width = picture.pixels.shape[:2]
        corners = [columns.min(), rows.min(), columns.max(), rows.max()]
        if "pixels" not in self.way:
            sides = (width, height) * 2
            corners = [1000 * corner / side for corner, side in zip(corners, sides, strict=True)]
        if "y first" in self.way:
            corners = [corners[i] for i in (1, 0, 3, 2)]
        entry = {"label": "red circle", self.key: [int(each) for each in corners]}
        return ScriptedLLM([json.dumps([entry])], sees_pictures=True).generate(prompts, sampling)


@pytest.mark.parametrize(
    ("way", "key", "options", "advice"),
    [
        ("x first", "bbox_2d", {}, ""),
        ("y first", "box_2d", {}, ""),
        ("y first", "bbox_2d", {"y_first": True}, ""),
        ("y first", "bbox_2d", {}, "y_first"),
        ("x first", "bbox_2d", {"y_first": True}, "y_first"),
        ("pixels", "bbox_2d", {"in_pixels": True}, ""),
        ("pixels", "bbox_2d", {}, "in_pixels = true"),
        ("x first", "bbox_2d", {"in_pixels": True}, "in_pixels = false"),
    ],
)
def test_one_request_shows_the_convention(
    way: str, key: str, options: dict[str, bool], advice: str
) -> None:
    llm = Seeing(way, key)
    found = probe_boxes(VlmDetector(EndpointVLM(llm), **options))  # type: ignore[arg-type]
    assert (advice in found) if advice else found == ""
    assert llm.requests == 1


def test_a_model_that_finds_nothing_or_writes_no_boxes() -> None:
    blind = EndpointVLM(ScriptedLLM(["[]"], sees_pictures=True))
    assert "none of its 0 boxes is near" in probe_boxes(VlmDetector(blind))
    chatty = EndpointVLM(ScriptedLLM(["I see a circle."], sees_pictures=True))
    with pytest.raises(ToolError, match="no JSON list of boxes"):
        probe_boxes(VlmDetector(chatty))
