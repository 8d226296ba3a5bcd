"""Downloads from a hub on this machine, and how soon a missing hub is reported.

    python benchmarks/hub.py [--megabytes 512]

Prints the seconds until one line says that no hub answers (a port that refuses, one that takes the
connection and is silent, a name that does not exist), those of a download over HTTP, of the same
download in pieces that end at random places, and of finding the model whole on this disk.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from pytest import MonkeyPatch

from tests.hub.server import serve, use_endpoint
from viper.errors import ModelError
from viper.models.hub import check_hub, local_copy, stored
from viper.models.loading import LoadOptions

SMALL = {"config.json": b"{}", "tokenizer.json": b"{}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=512)
    size = parser.parse_args().megabytes * 1_000_000
    logging.disable()
    with tempfile.TemporaryDirectory() as folder, MonkeyPatch.context() as patch:
        _without_hub(patch, Path(folder))
        _with_hub(patch, Path(folder), size)


def _without_hub(patch: MonkeyPatch, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        for name, url in (
            ("refuses", f"http://127.0.0.1:{closed.getsockname()[1]}"),
            ("is silent", f"http://127.0.0.1:{silent.getsockname()[1]}"),
            ("has no such name", "http://hub.invalid"),
        ):
            use_endpoint(patch, url, folder)
            seconds, error = _timed(lambda: check_hub(["org/one", "org/two"]))
            print(f"{name}: {seconds:.2f} s, {type(error).__name__}, {len(str(error))} characters")


def _with_hub(patch: MonkeyPatch, folder: Path, size: int) -> None:
    patch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    with serve() as hub:
        hub.add("org/model", {**SMALL, "model.safetensors": os.urandom(size)})
        for breaks in (0, 10):
            use_endpoint(patch, hub.url, folder / str(breaks))
            hub.break_after, hub.breaks = random.Random(0).randrange(size // 20), breaks
            hub.sent.clear()
            seconds, _ = _timed(lambda: local_copy("org/model", LoadOptions(), lambda *_: None))
            extra = hub.sent["model.safetensors"] / size - 1
            print(
                f"{size / 1e6:.0f} MB in {breaks + 1} pieces: {seconds:.2f} s, "
                f"{size / seconds / 1e6:.0f} MB/s, {extra:.1%} sent twice"
            )
        seconds, _ = _timed(lambda: stored("org/model"))
        print(f"whole on this disk: {seconds * 1000:.2f} ms")


def _timed(work: Callable[[], Any]) -> tuple[float, Exception | None]:
    begin = time.perf_counter()
    try:
        work()
    except ModelError as error:
        return time.perf_counter() - begin, error
    return time.perf_counter() - begin, None


if __name__ == "__main__":
    main()
