"""Pictures are prepared by the asking threads: outside of the model's lock, without weights."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.vision import built, tiny_blip, tiny_chat, tiny_open_clip
from tests.models.vision.tiny_owl import tiny_owl
from viper.errors import ToolError
from viper.models.memory import MemoryBudget
from viper.models.vision.chat_vlm import ChatVLM
from viper.models.vision.depth import DepthMaps
from viper.models.vision.detector_owlv2 import Owlv2Detector
from viper.models.vision.detector_vlm import VlmDetector
from viper.models.vision.detector_zero_shot import ZeroShotDetector
from viper.models.vision.roles import PreparesPictures
from viper.models.vision.vqa_blip import BlipAnswerer
from viper.models.vision.vqa_chat import ChatAnswerer
from viper.testing.fakes import FakeDetector, FakeMatcher
from viper.tools import toolbox as toolbox_module
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox

GIVE_UP_S = 30.0
PICTURE = np.zeros((6, 8, 3), np.uint8)


class Weights:
    """What must go when the backend is unloaded."""


def halved(wait: Callable[[], Any], image: Any) -> Any:
    wait()
    return image[::2, ::2]


class Prepared(FakeDetector):
    """Prepares pictures by halving them, after waiting as it is told."""

    def __init__(self, wait: Callable[[], Any] = lambda: None) -> None:
        super().__init__({"cube": [((1, 1, 2, 2), 0.9)]})
        self._wait, self.weights, self.memory_bytes = wait, Weights(), 8

    @property
    def prepare(self) -> Callable[[Any], Any]:
        return partial(halved, self._wait)

    def encode_prepared(self, inputs: Sequence[Any]) -> list[Any]:
        return [("prepared", each.shape) for each in inputs]


class Large(FakeMatcher):
    memory_bytes = 8


def toolbox_of(**loaders: Callable[[], Any]) -> Toolbox:
    return Toolbox(ModelSet(loaders), ToolSettings())


def test_a_backend_that_prepares_gets_prepared_pictures_and_others_the_pictures() -> None:
    toolbox = toolbox_of(detector=Prepared, matcher=FakeMatcher)
    assert isinstance(Prepared(), PreparesPictures)
    assert toolbox.ask("detector", "encode", PICTURE) == ("prepared", (3, 4, 3))
    assert toolbox.ask("matcher", "encode_images", PICTURE).shape == (3,)
    assert toolbox.ask("detector", "detect", "encoding", "cube")[0][0].score == 0.9


def test_threads_prepare_side_by_side_while_the_model_is_busy() -> None:
    together = threading.Barrier(4)
    toolbox = toolbox_of(detector=lambda: Prepared(lambda: together.wait(GIVE_UP_S)))
    assert toolbox.models.trait("detector", "prepare") is not None
    with ThreadPoolExecutor(3) as pool:
        with toolbox.models.using("detector"):
            asked = [pool.submit(toolbox.ask, "detector", "encode", PICTURE) for _ in range(3)]
            together.wait(GIVE_UP_S)  # all three prepare at the same time; the lock is held here
            assert not any(each.done() for each in asked)
        encoded = [each.result(GIVE_UP_S) for each in asked]
    assert encoded == [("prepared", (3, 4, 3))] * 3


def test_no_more_pictures_than_allowed_are_prepared_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(toolbox_module, "PREPARING", 2)
    lock, counts, go = threading.Lock(), [0, 0], threading.Event()

    def wait() -> None:
        with lock:
            counts[0] += 1
            counts[1] = max(counts)
            if counts[0] == 2:
                go.set()
        go.wait(GIVE_UP_S)
        with lock:
            counts[0] -= 1

    toolbox = toolbox_of(detector=lambda: Prepared(wait))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: toolbox.ask("detector", "encode", PICTURE), range(12)))
    assert counts[1] == 2


def test_an_unloaded_model_is_not_kept_and_loads_again_after_the_picture_is_prepared() -> None:
    loads: list[weakref.ref[Weights]] = []

    def load() -> Prepared:
        detector = Prepared()
        loads.append(weakref.ref(detector.weights))
        return detector

    models = ModelSet({"detector": load, "matcher": Large}, MemoryBudget(10))
    toolbox = Toolbox(models, ToolSettings())
    toolbox.ask("detector", "encode", PICTURE)
    toolbox.ask("matcher", "encode_images", PICTURE)
    gc.collect()
    assert "detector" not in models.loaded() and loads[0]() is None
    assert toolbox.ask("detector", "encode", PICTURE) == ("prepared", (3, 4, 3))
    assert len(loads) == 2


def test_a_picture_that_cannot_be_prepared_fails_its_own_request() -> None:
    def wait() -> None:
        raise ValueError("odd picture")

    toolbox = toolbox_of(detector=lambda: Prepared(wait))
    with pytest.raises(ValueError, match="odd picture"):
        toolbox.ask("detector", "encode", PICTURE)
    with pytest.raises(ToolError, match="no model plays"):
        toolbox.ask("vqa", "encode", PICTURE)


def an_owl(folder: Path) -> Any:
    return Owlv2Detector.from_pretrained(tiny_owl(folder))


def a_zero_shot(family: str, folder: Path) -> Any:
    return ZeroShotDetector.from_pretrained(built.save(family, folder))


def a_depth(folder: Path) -> Any:
    return DepthMaps.from_pretrained(built.save("depth_anything", folder), metric=True)


def a_blip(folder: Path) -> Any:
    return BlipAnswerer.from_pretrained(tiny_blip.tiny_blip(folder))


def a_clip(folder: Path) -> Any:
    return tiny_open_clip.tiny_matcher("clip-vit")


def a_chat(role: Callable[..., Any], folder: Path) -> Any:
    folder.mkdir()
    backend = role(ChatVLM.from_pretrained(tiny_chat.FAMILIES["llava"](folder), max_pixels=300))
    backend._model = backend._vlm._model
    return backend


@pytest.mark.parametrize(
    "build",
    [
        an_owl,
        partial(a_zero_shot, "mm_grounding_dino"),
        partial(a_zero_shot, "owlvit"),
        a_depth,
        a_blip,
        a_clip,
        partial(a_chat, ChatAnswerer),
        partial(a_chat, VlmDetector),
    ],
)
def test_shipped_backends_encode_prepared_pictures_alike_and_prepare_without_weights(
    build: Callable[[Path], Any], tmp_path: Path
) -> None:
    backend = build(tmp_path / "model")
    assert isinstance(backend, PreparesPictures)
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (*size, 3)).astype(np.uint8) for size in [(40, 30), (9, 70)]]
    methods = ("encode", "encode_images", "depth")
    (encode,) = (getattr(backend, name) for name in methods if hasattr(backend, name))
    prepare = backend.prepare
    with ThreadPoolExecutor(2) as pool:
        inputs = list(pool.map(prepare, images))
    for whole, one in zip(encode(images), backend.encode_prepared(inputs), strict=True):
        for value, other in zip(arrays(whole), arrays(one), strict=True):
            assert np.array_equal(value, other)
    weights = weakref.ref(next(backend._model.parameters()))
    del backend, encode
    gc.collect()
    assert weights() is None
    assert prepare(images[0]) is not None


def arrays(encoding: Any) -> list[Any]:
    """The arrays of an encoding, of any depth."""
    if is_dataclass(encoding):
        encoding = tuple(vars(encoding).values())
    if isinstance(encoding, tuple):
        return [array for part in encoding for array in arrays(part)]
    return [np.asarray(encoding)]
