"""How long a call of a routine on pixels takes, and how much of it is not its own work.

    python -m benchmarks.pixel_calls [--count 30]

A program calls each routine in the sandbox on new pictures of 1,024 x 768 pixels. The own work is
the computation on the arrays alone. Prints medians in milliseconds. `beyond` is the rest in the
parent process: checks, names, caches, and for pictures the hash by which they are stored. The last
line is a whole call with its way through the pipe, of a routine without work.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

from viper.api.prelude import PRELUDE
from viper.models.media import Media
from viper.sandbox import Sandbox
from viper.tools.models import ModelSet
from viper.tools.pixels import CHANGES, MEASURES
from viper.tools.session import media_arguments
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox
from viper_lab.world.fine.kinds import fine_sample

CALLS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "enlarge a part of 60 x 60": ("enlarge(part, 4)", ("enlarge", 4.0)),
    "blur": ("blur(whole, 2)", ("blur", 2.0)),
    "threshold_color": ("threshold_color(whole, 'red')", ("threshold_color", (255, 0, 0), 80.0)),
    "components": ("components(mask)", ("components", 1.0, 100)),
    "histogram": ("histogram(whole)", ("histogram", 8, "gray")),
    "mean_color": ("mean_color(whole)", ("mean_color",)),
    "color_at": ("color_at(whole, 5, 5)", ("samples", ((762, 5),), "red")),
    "show a part of 300 x 300": ("show(whole.crop(10, 10, 310, 310))", ()),
    "show the whole": ("show(whole)", ()),
}

PROGRAM = """
def execute_command(image):
    whole = ImagePatch(image)
    part = whole.crop(100, 100, 160, 160)
    mask = threshold_color(whole, "blue")
    CALL
    return 1
"""
LOOP = "for n in range(200):\n        color_at(whole, n, 5)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=30, help="pictures")
    options = parser.parse_args()
    pictures = [fine_sample("val", 9, 7 * n).pictures[0] for n in range(options.count + 3)]
    toolbox = Toolbox(ModelSet({}), ToolSettings(cache_mb=2))
    with Sandbox(prelude=PRELUDE) as sandbox:

        def timed(pixels: np.ndarray[Any, Any], call: str) -> tuple[float, float]:
            """Return the milliseconds of the last call in the parent, and of the program."""
            media = Media(images=(pixels,))
            media.content_hash("image0")
            session = toolbox.session(media)
            text, arguments = PROGRAM.replace("CALL", call), media_arguments(media)
            started = time.perf_counter()
            outcome = sandbox.run(text, tools=session, entry="execute_command", args=arguments)
            assert outcome.ok, outcome.failure
            return 1000 * session.calls[-1].seconds, 1000 * (time.perf_counter() - started)

        for name, (call, work) in CALLS.items():
            whole = statistics.median([timed(pixels, call)[0] for pixels in pictures][3:])
            own = statistics.median([_own(pixels, work) for pixels in pictures][3:])
            print(f"{name:<28} {whole:6.2f} ms, own {own:6.2f} ms, beyond {whole - own:5.2f} ms")
        loops = [timed(p, LOOP)[1] - timed(p, "pass")[1] for p in pictures]
        print(f"a call through the pipe      {statistics.median(loops) / 200:6.2f} ms")


def _own(pixels: np.ndarray[Any, Any], work: tuple[Any, ...]) -> float:
    """Return the milliseconds of a computation alone."""
    if not work:
        return 0.0
    name, *arguments = work
    array = pixels[600:660, 100:160] if name == "enlarge" else pixels
    if name == "components":
        array = CHANGES["threshold_color"](pixels, (0, 0, 255), 80.0)
    started = time.perf_counter()
    (CHANGES.get(name) or MEASURES[name])(array, *arguments)
    return 1000 * (time.perf_counter() - started)


if __name__ == "__main__":
    main()
