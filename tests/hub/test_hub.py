"""Lookups and downloads of published checkpoints by the real client."""

from __future__ import annotations

from tests.hub.server import Hub
from viper.models.hub import local_copy, published_as
from viper.models.loading import LoadOptions

WEIGHTS = bytes(range(256)) * 4096  # 1 MiB
FILES = {
    "config.json": b'{"model_type": "bert"}',
    "tokenizer.json": b"{}",
    "README.md": b"about",
    "model.safetensors": WEIGHTS,
}


def test_whole_cache_asks_for_nothing(hub: Hub) -> None:
    repository = hub.add("org/model", FILES)
    folder = local_copy("org/model", LoadOptions())
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert published_as(folder) == ("org/model", repository.commit)
    assert not (folder / "README.md").exists()
    hub.requests.clear()
    assert local_copy("org/model", LoadOptions()) == folder
    assert hub.requests == []
