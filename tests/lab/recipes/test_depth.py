"""The depth model starts as the detector's image tower."""

import numpy as np
import pytest
import torch

from viper.embedded import MEDIA
from viper_lab.recipes import depth
from viper_lab.recipes.depth import DETECTOR


@pytest.fixture(scope="module")
def picture():
    from PIL import Image

    size = (depth.INPUT_WIDTH, depth.INPUT_HEIGHT)
    image = Image.open(MEDIA / "table.png").convert("RGB").resize(size)
    return depth.normalised(
        torch.from_numpy(np.array(image))[None], depth.IMAGE_MEAN, depth.IMAGE_STD
    )


def test_its_tokens_are_those_of_the_detector(picture):
    tower = depth.detector_tower(DETECTOR)
    model = depth.build_model().eval()
    depth.start_from_detector(model, tower, picture)
    rows, columns = depth.GRID
    with torch.no_grad():
        padded = torch.nn.functional.pad(picture, (0, 0, 0, 48), value=0.5)
        hidden = tower(pixel_values=padded).last_hidden_state[:, 1 : 1 + rows * columns]
        theirs = tower.post_layernorm(hidden)
        ours = model.backbone(pixel_values=picture).feature_maps[-1][:, 1:]
        untrained = depth.build_model().eval().backbone(pixel_values=picture)
    assert torch.cosine_similarity(ours, theirs, dim=-1).mean() > 0.85
    strange = untrained.feature_maps[-1][:, 1:]
    assert torch.cosine_similarity(strange, theirs, dim=-1).mean() < 0.5


def test_a_saved_model_is_read_back(tmp_path, picture):
    from viper.models.vision.depth import DepthMaps

    depth.save(depth.build_model(), tmp_path)
    estimator = DepthMaps.from_pretrained(tmp_path)
    (found,) = estimator.depth([np.zeros((30, 40, 3), np.uint8)])
    assert found.shape == (30, 40) and np.isfinite(found).all()
