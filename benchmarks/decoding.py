"""What it costs to decode a photograph in a worker, beside decoding it in this process.

    python benchmarks/decoding.py [--repeat 40]

The picture is a JPEG of 2 megapixels with the detail of a photograph (about 500 KB). Both ways run
in turns, in a process that has decoded before; medians in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from viper.models.decoding import decode
from viper.models.media_files import opened

_SIZE = (1633, 1225)


def _in_process(path: Path) -> np.ndarray:
    with opened(path, page=1, picture=True) as file:
        return np.array(file.decode(file))


def _in_worker(path: Path) -> np.ndarray:
    return decode(path).pixels


def _photograph(path: Path) -> None:
    """Write smooth areas with some noise on them."""
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 256, (49, 65, 3), np.uint8)).resize(_SIZE)
    noise = rng.normal(0, 6, (_SIZE[1], _SIZE[0], 3))
    Image.fromarray(np.clip(np.asarray(coarse) + noise, 0, 255).astype(np.uint8)).save(path)


def _ms(way: Callable[[Path], np.ndarray], path: Path) -> float:
    begin = time.perf_counter()
    way(path).sum()  # reads each pixel, as a model does
    return (time.perf_counter() - begin) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=40)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "photograph.jpg"
        _photograph(path)
        assert np.array_equal(_in_process(path), _in_worker(path))
        times = [(_ms(_in_process, path), _ms(_in_worker, path)) for _ in range(repeat)]
    here, there = map(statistics.median, zip(*times, strict=True))
    more = statistics.median(b - a for a, b in times)
    print(f"here {here:.1f} ms, in a worker {there:.1f} ms: {more:+.1f} ms (n = {repeat})")


if __name__ == "__main__":
    main()
