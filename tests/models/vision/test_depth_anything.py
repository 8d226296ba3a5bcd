"""The depth backend on tiny Depth Anything checkpoints."""

import numpy as np
import pytest

from tests.models.vision.swapping import answer_with
from viper.errors import ModelError
from viper.models.vision.depth import DepthAnythingEstimator
from viper.models.vision.roles import DepthEstimator
from viper.testing.conformance import check_depth


@pytest.fixture(scope="module", params=["metric", "relative"])
def folder(request, tmp_path_factory):
    import torch
    from transformers import (
        DepthAnythingConfig,
        DepthAnythingForDepthEstimation,
        Dinov2Config,
        DPTImageProcessor,
    )

    torch.manual_seed(0)
    tower = Dinov2Config(
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        image_size=32,
        patch_size=8,
        out_indices=[1, 2, 3, 4],
        reshape_hidden_states=False,
    )
    config = DepthAnythingConfig(
        backbone_config=tower,
        patch_size=8,
        reassemble_hidden_size=16,
        neck_hidden_sizes=[4, 4, 8, 8],
        fusion_hidden_size=8,
        head_hidden_size=4,
        depth_estimation_type=request.param,
        max_depth=1,
    )
    path = tmp_path_factory.mktemp(request.param)
    model = DepthAnythingForDepthEstimation(config)
    torch.nn.init.constant_(model.head.conv3.bias, 0.5)
    model.save_pretrained(path)
    DPTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(path)
    return path


def images():
    rng = np.random.default_rng(0)
    shapes = [(20, 30), (24, 16), (20, 30)]
    return [rng.integers(0, 255, (*shape, 3)).astype(np.uint8) for shape in shapes]


def test_maps_have_the_size_of_their_pictures(folder):
    estimator = DepthAnythingEstimator.from_pretrained(folder)
    maps = estimator.depth(images())
    assert [each.shape for each in maps] == [(20, 30), (24, 16), (20, 30)]
    assert all(each.dtype == np.float32 and np.isfinite(each).all() for each in maps)


def test_a_batch_changes_nothing(folder):
    estimator = DepthAnythingEstimator.from_pretrained(folder)
    together = estimator.depth(images())
    alone = [estimator.depth([image])[0] for image in images()]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_a_relative_model_is_turned_round(folder):
    estimator = DepthAnythingEstimator.from_pretrained(folder)
    raw = estimator._model
    turned = estimator.depth(images()[:1])[0]
    estimator._relative = False
    plain = estimator.depth(images()[:1])[0]
    sign = -1 if raw.config.depth_estimation_type == "relative" else 1
    assert sign * np.corrcoef(turned.ravel(), plain.ravel())[0, 1] > 0.5


def test_it_plays_its_role(folder):
    estimator = DepthAnythingEstimator.from_pretrained(folder)
    assert isinstance(estimator, DepthEstimator)
    assert estimator.model_id.startswith(folder.name + "@")
    assert estimator.depth([]) == []


def test_a_folder_without_a_model_is_a_model_error(tmp_path):
    with pytest.raises(ModelError, match="cannot be loaded as"):
        DepthAnythingEstimator.from_pretrained(tmp_path)


def test_it_keeps_to_its_role(folder):
    check_depth(DepthAnythingEstimator.from_pretrained(folder))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_answers(folder, dtype):
    half = DepthAnythingEstimator.from_pretrained(folder, dtype=dtype, device="cpu")
    check_depth(half, tolerance=5e-2)


def test_one_line_of_a_profile_gives_it_its_role(folder, tmp_path):
    line = f'{{ backend = "depth_anything", model = "{folder}" }}'
    assert answer_with("depth", line, tmp_path) == "True"
