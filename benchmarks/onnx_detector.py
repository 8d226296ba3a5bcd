"""Average precision and seconds of the detector backend ``onnx`` beside a plain onnxruntime loop.

    VIPER_DATA=../shared/data python benchmarks/onnx_detector.py [--pictures 60]

The figures of the AP are those of ``viper lab reproduce photographs --part detector``. The seconds
are of whole pictures, from pixels to boxes of all categories: each picture by one, then by the
other, and the median of the pictures' ratios is compared with 1.15.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from viper.models.media import read_picture
from viper.models.vision.detector_onnx import OnnxDetector
from viper_lab.photographs import detector
from viper_lab.photographs.job import DEVELOPMENT, PhotographJob

MOST = 1.15


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=60, help="pictures that are timed")
    chosen = parser.parse_args()
    if not (data := os.environ.get("VIPER_DATA")):
        parser.error("VIPER_DATA names no folder with photos/ and models/")
    with TemporaryDirectory() as folder:
        job = PhotographJob(Path(data), Path(folder))
        measured = detector.measure(job)
        for row in measured.rows:
            print(f"AP {row.figure.mean:.4f}  {row.name}, {row.family} ({row.n} pictures)")
        source = job.profile().document.roles["detector"].model or ""
        backend, loop = OnnxDetector.from_pretrained(source), detector.PlainLoop(Path(source))
        files = sorted((job.folder(DEVELOPMENT) / "images").iterdir())[: chosen.pictures + 1]
        seconds: dict[str, list[float]] = {detector.BACKEND: [], detector.PLAIN: []}
        for picture in map(read_picture, files):
            began = time.perf_counter()
            detector.of_backend(backend, picture)
            between = time.perf_counter()
            loop.found(picture)
            seconds[detector.BACKEND].append(between - began)
            seconds[detector.PLAIN].append(time.perf_counter() - between)
    pairs = [*zip(*seconds.values(), strict=True)][1:]  # the first warms up
    ratio = statistics.median(own / plain for own, plain in pairs)
    for name, values in zip(seconds, zip(*pairs, strict=True), strict=True):
        print(f"{1000 * statistics.median(values):.1f} ms a picture  {name}")
    print(f"{ratio:.3f} x the loop, at most {MOST}")
    return int(ratio > MOST or not all(claim.holds for claim in measured.claims))


if __name__ == "__main__":
    sys.exit(main())
