"""Measure `viper apply`: throughput, memory, and what kills lose.

    python -m benchmarks.apply [--pictures 10000] [--kills 10] [--loop 200]

Draws pictures of the embedded world into a temporary folder and applies one program to them with
the profile `embedded`, in processes that are killed at random moments. Prints

- whether every picture has exactly one row in the end;
- resident memory of the process, and its slope by least squares over the second half of the last
  session, in MB for 1,000 pictures;
- pictures per second of the last session, and of a loop of `Reasoner.execute`, one picture after
  the other in one process, on the first `--loop` pictures.

Claimed: nothing lost or doubled; less than 5 MB more for 1,000 pictures. Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import csv
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene

PROGRAM = """def execute_command(image):
    image_patch = ImagePatch(image)
    balls = image_patch.find("ball")
    return "none" if not balls else balls[0].simple_query("What color is this?")
"""
MAX_SLOPE_MB = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--loop", type=int, default=200, help="pictures of the loop")
    parser.add_argument("--workers", type=int, default=16)
    options = parser.parse_args()
    rng = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="viper-apply-") as name:
        folder = Path(name)
        pictures, program, table = folder / "pictures", folder / "p.py", folder / "answers.csv"
        draw(pictures, options.pictures)
        program.write_text(PROGRAM)
        command = [sys.executable, "-m", "viper", "apply", str(program), str(pictures)]
        command += ["-o", str(table), "--profile", "embedded", "--workers", str(options.workers)]
        targets = sorted(rng.sample(range(1, max(2, options.pictures * 2 // 3)), options.kills))
        for target in targets:
            watch(command, table, kill_at=target)
        rows_before = count(table)
        rate, slope, top = watch(command, table)
        with table.open(newline="") as file:
            names = [row["file"] for row in csv.DictReader(file)]
        whole = len(names) == len(set(names)) == options.pictures
        print(f"{options.pictures} pictures, {len(targets)} kills: {len(names)} rows, "
              f"{len(set(names))} different")  # fmt: skip
        print(f"last session: {options.pictures - rows_before} pictures, {rate:.1f}/s, "
              f"{top:.0f} MB at most, {slope:+.1f} MB per 1,000")  # fmt: skip
        alone = loop(sorted(pictures.iterdir())[: options.loop])
        print(
            f"a loop of Reasoner.execute: {alone:.1f}/s; apply is {rate / alone:.2f} times as fast"
        )
    sys.exit(0 if whole and slope < MAX_SLOPE_MB else 1)


def draw(folder: Path, number: int) -> None:
    """Write pictures of the world."""
    folder.mkdir()
    for index in range(number):
        picture = render_scene(sample_scene("val", index)).image
        Image.fromarray(picture).save(folder / f"{index:05d}.png", compress_level=1)


def count(table: Path) -> int:
    """Return the number of rows, whole or not."""
    return max(0, table.read_bytes().count(b"\n") - 1) if table.exists() else 0


def watch(
    command: list[str], table: Path, kill_at: int | None = None
) -> tuple[float, float, float]:
    """Run a session until its end, or until so many rows; return rate, slope and most memory."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begin: tuple[float, int] | None = None
    points: list[tuple[int, float]] = []
    first = count(table)
    while process.poll() is None:
        rows = count(table)
        if rows > first and begin is None:
            begin = time.monotonic(), rows
        if begin is not None:
            points.append((rows, resident_mb(process.pid)))
        if kill_at is not None and rows >= kill_at:
            process.send_signal(signal.SIGKILL)
        time.sleep(0.2)
    if kill_at is not None or begin is None or len(points) < 4:
        return 0.0, 0.0, 0.0
    rate = (count(table) - begin[1]) / (time.monotonic() - begin[0])
    half = np.array([point for point in points[len(points) // 2 :] if point[1] > 0])
    slope = float(np.polyfit(half[:, 0], half[:, 1], 1)[0]) * 1000
    return rate, slope, max(memory for _, memory in points)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6
    except (OSError, IndexError):
        return 0.0


def loop(pictures: list[Path]) -> float:
    """Return pictures per second of one call after the other, without start-up."""
    with Reasoner(load_profile("embedded")) as reasoner:
        reasoner.execute(PROGRAM, str(pictures[0]))
        started = time.monotonic()
        for picture in pictures:
            reasoner.execute(PROGRAM, str(picture))
        return len(pictures) / (time.monotonic() - started)


if __name__ == "__main__":
    main()
