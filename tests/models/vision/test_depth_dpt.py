"""The DPT backend on tiny checkpoints with random weights: a MiDaS one and a metric one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from viper.errors import ModelError
from viper.models.vision.depth import DptEstimator, nearness_to_depth
from viper.models.vision.roles import DepthEstimator
from viper.testing.conformance import check_depth


def build(path: Path, *, on_backbone: bool) -> Path:
    """A plain ViT as in ``dpt-large``, or a padded DINOv2 as in ``dpt-dinov2-base-nyu``."""
    import torch
    from transformers import Dinov2Config, DPTConfig, DPTForDepthEstimation, DPTImageProcessor

    sizes = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2}
    neck = {"neck_hidden_sizes": [4, 4, 8, 8], "fusion_hidden_size": 8}
    if on_backbone:
        tower = Dinov2Config(
            **sizes,
            image_size=32,
            patch_size=8,
            out_indices=[1, 2, 3, 4],
            reshape_hidden_states=False,
            apply_layernorm=False,
        )
        config = DPTConfig(backbone_config=tower, initializer_range=0.3, **neck)
        processor = DPTImageProcessor(do_resize=False, do_pad=True, size_divisor=8)
    else:
        config = DPTConfig(
            **sizes,
            **neck,
            intermediate_size=32,
            image_size=32,
            patch_size=8,
            backbone_out_indices=[0, 1, 2, 3],
            initializer_range=0.3,
        )
        processor = DPTImageProcessor(size={"height": 32, "width": 32})
    torch.manual_seed(0)
    model = DPTForDepthEstimation(config)
    torch.nn.init.constant_(model.head.head[4].bias, 0.5)
    model.save_pretrained(path)
    processor.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def midas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("midas"), on_backbone=False)


@pytest.fixture(scope="module")
def padded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("padded"), on_backbone=True)


def picture(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def says(estimator: DptEstimator, depth: np.ndarray, patch: pytest.MonkeyPatch) -> None:
    """Makes the network say ``depth`` whatever it sees, so that only what follows is left."""
    import torch

    answer = torch.from_numpy(depth.astype(np.float32))
    patch.setattr(
        estimator._model,
        "forward",
        lambda pixel_values: SimpleNamespace(
            predicted_depth=answer.expand(len(pixel_values), -1, -1)
        ),
    )


@pytest.mark.parametrize("metric", [False, True])
@pytest.mark.parametrize("kind", ["midas", "padded"])
def test_it_keeps_to_its_role(request: pytest.FixtureRequest, kind: str, metric: bool) -> None:
    check_depth(DptEstimator.from_pretrained(request.getfixturevalue(kind), metric=metric))


def test_it_plays_its_role(midas: Path) -> None:
    estimator = DptEstimator.from_pretrained(midas)
    assert isinstance(estimator, DepthEstimator)
    assert estimator.model_id.startswith(f"{midas.name}@")


def test_nearness_is_turned_round(midas: Path) -> None:
    image = picture(40, 60)
    turned = DptEstimator.from_pretrained(midas).depth([image])[0]
    plain = DptEstimator.from_pretrained(midas, metric=True).depth([image])[0]
    assert plain.std() > 1e-3
    order = np.argsort(plain.ravel())
    assert (np.diff(turned.ravel()[order]) <= 1e-4).all()
    np.testing.assert_allclose(turned, nearness_to_depth(plain), rtol=1e-5)


def test_the_nearest_and_the_farthest_point_of_a_nearness_map() -> None:
    depth = nearness_to_depth(np.array([[4.0, 2.0], [0.0, -1.0]], np.float32))
    np.testing.assert_allclose(depth, [[1 / 1.01, 1 / 0.51], [100, 100]], rtol=1e-5)


@pytest.mark.parametrize("size", [(20, 60), (60, 20)], ids=["wide", "tall"])
def test_a_map_is_stretched_over_its_picture(
    midas: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator = DptEstimator.from_pretrained(midas, metric=True)
    rows, columns = np.mgrid[:64, :64] / 64
    says(estimator, 10 * rows + columns, monkeypatch)
    (depth,) = estimator.depth([picture(*size)])
    height, width = size
    rows, columns = (np.mgrid[:height, :width] + 0.5) / np.array(size)[:, None, None] - 1 / 128
    inside = np.s_[3:-3, 3:-3]  # a bicubic stretch flattens a ramp at its ends
    np.testing.assert_allclose(depth[inside], (10 * rows + columns)[inside], atol=1e-2)


def test_padding_is_cut_off_again(padded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    estimator = DptEstimator.from_pretrained(padded, metric=True)
    given = estimator._processor(
        picture(19, 30), input_data_format="channels_last", return_tensors="pt"
    )["pixel_values"]
    assert given.shape[-2:] == (24, 32)
    inside = (given[0] != 0).all(dim=0).numpy()
    says(estimator, np.where(inside, 1.0, 9.0), monkeypatch)
    (depth,) = estimator.depth([picture(19, 30)])
    assert depth.shape == (19, 30)
    np.testing.assert_allclose(depth, 1.0, atol=1e-6)


def test_a_picture_three_pixels_high_is_not_taken_for_three_channels(midas: Path) -> None:
    import torch
    from PIL import Image

    image = picture(3, 40)
    estimator = DptEstimator.from_pretrained(midas, metric=True)
    batch = estimator._processor(images=[Image.fromarray(image)], return_tensors="pt")
    with torch.inference_mode():
        output = estimator._model(**batch)
    sized = estimator._processor.post_process_depth_estimation(output, target_sizes=[(3, 40)])
    np.testing.assert_allclose(
        estimator.depth([image])[0], sized[0]["predicted_depth"].numpy(), rtol=1e-4
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_answers(midas: Path, dtype: str) -> None:
    half = DptEstimator.from_pretrained(midas, dtype=dtype, device="cpu")
    check_depth(half, tolerance=5e-2)
    full = DptEstimator.from_pretrained(midas, device="cpu")
    assert half.memory_bytes < 0.6 * full.memory_bytes


def test_a_folder_without_a_model_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded as"):
        DptEstimator.from_pretrained(tmp_path)
