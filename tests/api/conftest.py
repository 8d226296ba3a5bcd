"""A sandbox, a scripted client, and pictures and videos without content."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.scripted import Maker, ScriptedClient
from viper.api import ImageHandle, ImagePatch, VideoHandle
from viper.api.prelude import PRELUDE
from viper.sandbox import Limits, Sandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox with the API and no models."""
    with Sandbox(None, Limits(), prelude=PRELUDE, mode="weak") as sandbox:
        yield sandbox


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


@pytest.fixture
def image(client: ScriptedClient) -> ImageHandle:
    """200 wide, 100 high."""
    return ImageHandle("image0", 200, 100, client)


@pytest.fixture
def video(client: ScriptedClient) -> VideoHandle:
    """32 frames of 160 x 120."""
    return VideoHandle("video0", 32, 160, 120, client)


@pytest.fixture
def patch(image: ImageHandle) -> Maker:
    """``patch(left, lower, right, upper)`` in that picture."""
    return lambda *borders: ImagePatch(image, *borders)
