"""The depth backend on tiny checkpoints of every family, with random weights."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.models.vision.built import DEPTHS, save
from tests.models.vision.heads import SHAPES, rectangle, see_depths
from tests.models.vision.swapping import answer_with
from viper.errors import ModelError, ProfileError
from viper.models.vision.depth import DepthMaps, nearness_to_depth
from viper.models.vision.roles import DepthEstimator
from viper.testing.conformance import check_depth


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    weights = tmp_path_factory.mktemp("weights")
    made = {family: save(family, weights / family) for family in DEPTHS}
    more = {"depth_estimation_type": "metric", "max_depth": 1}
    made["metric_anything"] = save("depth_anything", weights / "metric", **more)
    return made


@pytest.fixture(scope="module")
def midas(folders: dict[str, Path]) -> Path:
    return folders["dpt"]


def picture(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def says(estimator: DepthMaps, depth: np.ndarray, patch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("family", [*DEPTHS, "metric_anything"])
def test_it_keeps_to_its_role(folders: dict[str, Path], family: str) -> None:
    check_depth(DepthMaps.from_pretrained(folders[family]))


def test_it_plays_its_role(midas: Path) -> None:
    estimator = DepthMaps.from_pretrained(midas)
    assert isinstance(estimator, DepthEstimator)
    assert estimator.model_id.startswith(f"{midas.name}@")


METRIC = {
    "depth_anything": False,
    "metric_anything": True,
    "dpt": False,
    "glpn": True,
    "zoedepth": True,
    "depth_pro": True,
}


@pytest.mark.parametrize(("family", "metric"), METRIC.items())
def test_the_configuration_or_the_family_says_whether_it_is_metric(
    folders: dict[str, Path], family: str, metric: bool
) -> None:
    assert DepthMaps.from_pretrained(folders[family])._relative is not metric
    assert DepthMaps.from_pretrained(folders[family], metric=not metric)._relative is metric


def test_a_family_that_does_not_say_must_be_told(midas: Path) -> None:
    model, processor = DepthMaps.from_pretrained(midas)._model, None
    model.config.model_type = "chmv2"
    with pytest.raises(ProfileError, match="new: a chmv2 model does not say .* set metric = true"):
        DepthMaps(model, processor, "new")
    assert DepthMaps(model, processor, "new", metric=False)._relative


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("family", DEPTHS)
def test_a_known_depth_comes_out_at_its_pixels(
    folders: dict[str, Path], family: str, shape: tuple[int, int]
) -> None:
    metric = family in ("glpn", "zoedepth")
    estimator = DepthMaps.from_pretrained(folders[family])
    see_depths(estimator._model)
    image, box = rectangle(shape)
    (depth,) = estimator.depth([image])
    assert outlined(depth, farther=metric) == pytest.approx(box, abs=1.0)
    crop = image[3:, 4:]
    moved = np.array(box) - [4, 3, 4, 3]
    assert outlined(estimator.depth([crop])[0], farther=metric) == pytest.approx(moved, abs=1.0)


def outlined(depth: np.ndarray, *, farther: bool) -> tuple[int, ...]:
    """The box of the nearer, or farther, part of a map of two depths."""
    nearness = depth if farther else 1 / depth
    inside = nearness > (nearness.max() + nearness.min()) / 2
    rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
    return columns[0], rows[0], columns[-1] + 1, rows[-1] + 1


@pytest.mark.parametrize("family", DEPTHS)
def test_depths_that_are_not_numbers_are_an_error(folders: dict[str, Path], family: str) -> None:
    estimator = DepthMaps.from_pretrained(folders[family])
    forward = estimator._model.forward

    def broken(**inputs):
        output = forward(**inputs)
        middle = [side // 2 for side in output.predicted_depth.shape[1:]]
        output.predicted_depth[:, middle[0] :, middle[1] :] = np.nan
        return output

    estimator._model.forward = broken
    with pytest.raises(ModelError, match=r'not finite numbers; .*dtype = "float32"') as caught:
        estimator.depth([picture(40, 60)])
    assert str(caught.value).startswith(estimator.model_id)


def test_nearness_is_turned_round(midas: Path) -> None:
    image = picture(40, 60)
    turned = DepthMaps.from_pretrained(midas).depth([image])[0]
    plain = DepthMaps.from_pretrained(midas, metric=True).depth([image])[0]
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
    estimator = DepthMaps.from_pretrained(midas, metric=True)
    rows, columns = np.mgrid[:64, :64] / 64
    says(estimator, 10 * rows + columns, monkeypatch)
    (depth,) = estimator.depth([picture(*size)])
    height, width = size
    rows, columns = (np.mgrid[:height, :width] + 0.5) / np.array(size)[:, None, None] - 1 / 128
    inside = np.s_[3:-3, 3:-3]  # a bicubic stretch flattens a ramp at its ends
    np.testing.assert_allclose(depth[inside], (10 * rows + columns)[inside], atol=1e-2)


def test_padding_is_cut_off_again(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator = DepthMaps.from_pretrained(folders["dpt_padded"], metric=True)
    given = estimator._processor(
        picture(19, 30), input_data_format="channels_last", return_tensors="pt"
    )["pixel_values"]
    assert given.shape[-2:] == (24, 32)
    inside = (given[0] != 0).all(dim=0).numpy()
    says(estimator, np.where(inside, 1.0, 9.0), monkeypatch)
    (depth,) = estimator.depth([picture(19, 30)])
    assert depth.shape == (19, 30)
    np.testing.assert_allclose(depth, 1.0, atol=1e-6)


@pytest.mark.parametrize("family", DEPTHS)
@pytest.mark.parametrize("size", [(1, 40), (40, 1), (2, 3)], ids=str)
def test_pictures_of_a_pixel_s_width_have_a_map(
    folders: dict[str, Path], family: str, size: tuple[int, int]
) -> None:
    estimator = DepthMaps.from_pretrained(folders[family])
    assert estimator.depth([picture(*size)])[0].shape == size


def test_a_picture_three_pixels_high_is_not_taken_for_three_channels(midas: Path) -> None:
    import torch
    from PIL import Image

    image = picture(3, 40)
    estimator = DepthMaps.from_pretrained(midas, metric=True)
    batch = estimator._processor(images=[Image.fromarray(image)], return_tensors="pt")
    with torch.inference_mode():
        output = estimator._model(**batch)
    sized = estimator._processor.post_process_depth_estimation(output, target_sizes=[(3, 40)])
    np.testing.assert_allclose(
        estimator.depth([image])[0], sized[0]["predicted_depth"].numpy(), rtol=1e-4
    )


@pytest.mark.parametrize("family", ["dpt", "metric_anything"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_answers(folders: dict[str, Path], family: str, dtype: str) -> None:
    half = DepthMaps.from_pretrained(folders[family], dtype=dtype, device="cpu", metric=True)
    check_depth(half, tolerance=5e-2)
    full = DepthMaps.from_pretrained(folders[family], device="cpu")
    assert half.memory_bytes < 0.6 * full.memory_bytes


def test_a_folder_without_a_model_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded as"):
        DepthMaps.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("backend", "family"), [("depth", "zoedepth"), ("depth_anything", "depth_anything")]
)
def test_one_line_of_a_profile_gives_it_its_role(
    folders: dict[str, Path], backend: str, family: str, tmp_path: Path
) -> None:
    line = f'{{ backend = "{backend}", model = "{folders[family]}" }}'
    assert answer_with("depth", line, tmp_path) == "True"
