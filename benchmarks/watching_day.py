"""A day of `viper watch` on a fast clock: memory, handles and events hour by hour.

    python -m benchmarks.watching_day [--hours 24]

A folder holds files of five minutes, in which a light goes on once a minute. The watch looks each
second, as it would at a camera's recordings, and writes a row, a page and a clip for each event.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from viper.models.media import CLIP_FPS, write_mp4
from viper.profiles import load_profile
from viper.reasoner import Reasoner, RunOptions
from viper.watch.events import EventLog
from viper.watch.watching import TASK, Condition, Watch
from viper.watch.windows import Window

_SECONDS = 300
_PROGRAM = """
def execute_command(image):
    return mean_color(ImagePatch(image))[0] > 128
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hours", type=int, default=24, help="hours of video")
    hours = parser.parse_args().hours
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "recordings"
        folder.mkdir()
        frames = np.full((_SECONDS * CLIP_FPS, 64, 64, 3), 20, np.uint8)
        for minute in range(_SECONDS // 60):
            frames[(60 * minute + 20) * CLIP_FPS : (60 * minute + 25) * CLIP_FPS] = 220
        write_mp4(Path(name) / "clip.mp4", frames)
        for number in range(hours * 3600 // _SECONDS):
            os.link(Path(name) / "clip.mp4", folder / f"{number:05d}.mp4")
        log, began = EventLog(Path(name) / "out", "day"), time.perf_counter()

        def report() -> None:
            us = psutil.Process()
            all_of_us = [us, *us.children(recursive=True)]
            mine, whole = us.memory_info().rss, sum(each.memory_info().rss for each in all_of_us)
            state = log.state
            print(
                f"{(state.clock + state.read) / 3600:5.2f} h watched: {mine >> 20} MB, with "
                f"children {whole >> 20} MB, {us.num_fds()} handles, {len(all_of_us)} processes, "
                f"{us.num_threads()} threads, {state.events} events, "
                f"{time.perf_counter() - began:.0f} s",
                flush=True,
            )

        def look(window: Window) -> None:
            if window.number == 0 and int(window.path.stem) % (3600 // _SECONDS) == 0:
                report()

        with Reasoner(load_profile("embedded"), preload=False) as reasoner:
            Watch(
                reasoner, _PROGRAM, Condition("it is light", "while"),
                RunOptions(TASK, self_tune=False, checks=False), log, False, 1.0, 0.0, 0.0, 0.0,
                0.0, True, on_window=look,
            ).run(folder)  # fmt: skip
            report()
        log.close()


if __name__ == "__main__":
    main()
