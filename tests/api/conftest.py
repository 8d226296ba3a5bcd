"""A scripted client, pictures and videos that stand for nothing."""

from __future__ import annotations

import pytest

from tests.api.scripted import Maker, ScriptedClient
from viper.api import ImageHandle, ImagePatch, VideoHandle


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
