"""An index of many synthetic pictures: how long it takes, how much it needs, what it finds.

    python benchmarks/search_pictures.py [--pictures 100000] [--queries 200] [--keep DIR]

Pictures are 64 x 64 PNGs of crops of the embedded world, each tinted, flipped and shifted in a way
of its own; a query is one that is not indexed. Prints the seconds and the memory of building (in a
process of its own), the bytes on disk, the median and the 95th percentile of a query's time, the
matcher's part included, and how many of the first ten are among the ten nearest by all vectors.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from apart import apart
from PIL import Image

from viper.profiles import load_profile
from viper.search.image_index import ImageIndex
from viper.tools.crops import object_crop
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene

SCENES = 300
SIDE = 64


def main() -> None:
    given = _arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        pictures = folder / f"pictures-{given.pictures}"
        crops = _crops()
        _write(pictures, given.pictures, crops)
        seconds, memory = apart(_build, pictures, folder / "state")
        index = ImageIndex(pictures, _matcher(), folder / "state")
        files = (folder / "state" / "pictures").iterdir()
        disk = sum(one.stat().st_size for one in files)
        print(
            f"{len(index):,} pictures indexed in {seconds:.0f} s, at most {memory:,.0f} MB of "
            f"memory, {disk / 1e6:,.0f} MB on disk"
        )
        with index._pictures.opened() as database:
            rows = list(index._pictures.numbered(database))
        matrix = np.frombuffer(b"".join(vector for _, vector in rows), "<f4")
        matrix = matrix.reshape(len(rows), -1)
        asked = [_picture(10**9 + one, crops) for one in range(given.queries)]
        index.similar(asked[0], 10)
        times, recalls = [], []
        for pixels in asked:
            started = time.perf_counter()
            found = index.similar(pixels, 10)
            times.append(1000 * (time.perf_counter() - started))
            likeness = matrix @ _matcher().encode_images([pixels])[0]
            least = np.sort(likeness)[-10]
            recalls.append(np.mean([one.score >= least - 1e-3 for one in found]))
        print(
            f"{len(asked)} queries: median {np.median(times):.1f} ms, 95 % within "
            f"{np.quantile(times, 0.95):.1f} ms; recall@10 of exact {np.mean(recalls):.3f}"
        )


_MATCHERS: list[Any] = []


def _matcher() -> Any:
    if not _MATCHERS:
        _MATCHERS.append(load_profile("embedded").components().toolbox.models.shared("matcher"))
    return _MATCHERS[0]


def _crops() -> list[np.ndarray]:
    found = []
    for number in range(SCENES):
        still = render_scene(sample_scene("train", 700_000_000 + number))
        for box in still.boxes:
            x0, y0, x1, y1 = map(float, box)
            crop = Image.fromarray(object_crop(still.image, (x0, y0, x1, y1)))
            found.append(np.asarray(crop.resize((SIDE, SIDE))))
    return found


def _picture(number: int, crops: list[np.ndarray]) -> np.ndarray:
    """uint8 [64, 64, 3], another one for each number."""
    rng = np.random.default_rng([23, number])
    crop = crops[int(rng.integers(len(crops)))].astype(np.float32)
    if rng.random() < 0.5:
        crop = crop[:, ::-1]
    crop = np.roll(crop, rng.integers(-6, 7, 2), (0, 1))
    crop = crop * rng.uniform(0.7, 1.3, 3) + rng.uniform(-20, 20, 3) + rng.normal(0, 4, crop.shape)
    return np.clip(crop, 0, 255).astype(np.uint8)


def _write(folder: Path, count: int, crops: list[np.ndarray]) -> None:
    for number in range(count):
        place = folder / f"{number // 1000:03d}"
        if number % 1000 == 0:
            place.mkdir(parents=True, exist_ok=True)
            print(f"\r{number:,} pictures drawn", end="", flush=True)
        path = place / f"{number:06d}.png"
        if not path.is_file():
            Image.fromarray(_picture(number, crops)).save(path, compress_level=1)
    print()


def _build(pictures: Path, state: Path) -> None:
    def told(done: int, total: int) -> None:
        print(f"\r{done:,} of {total:,}", end="", flush=True)

    ImageIndex(pictures, _matcher(), state).update(told, told)
    print()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="keep pictures and index, and use them again")
    return parser.parse_args()


if __name__ == "__main__":
    main()
