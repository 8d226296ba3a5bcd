"""Makes the README's screenshots, ``trace.png`` and ``atlas.png``, of a run of the shipped models.

    python docs/images/make.py [--limit 48] [--into docs/images]

Answers validation samples of the embedded world, seed after seed, until one that asks for a place
needed a correction and then was right. The trials on that sample's page are the first picture; the
run it is from, as ``viper view`` shows it, is the second. Takes two minutes and a chromium; says
which query it found, for the captions name it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image

from viper.evaluate.row import Row
from viper.evaluate.runs.store import RunStore

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SEEDS = range(5)
WIDTH, HEIGHT = 1200, 900
ROOM = 12
COLORS = 256
MOST_BYTES = 150_000


def main() -> int:
    """Writes both pictures and says how large they are."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--limit", type=int, default=48, help="samples of a run (48)")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent, metavar="DIR")
    given = parser.parse_args()
    browser = found_browser()
    with tempfile.TemporaryDirectory() as folder:
        run, row = corrected(Path(folder), given.limit)
        print(f"{row.sample_id}, seed {row.seed}: {row.text}", file=sys.stderr)
        with served(run) as address, tab(browser) as page:
            page.goto(f"{address}trace?{urlencode({'id': row.sample_id, 'seed': row.seed})}")
            written(
                given.into / "trace.png",
                shot(page, page.locator("section[aria-labelledby=trials-title]")),
            )
            page.goto(f"{address}?sort=worst")
            page.wait_for_function(
                "[...document.querySelectorAll('.grid img')].slice(0, 12)"
                ".every(one => one.naturalWidth > 0)"
            )
            written(given.into / "atlas.png", shot(page))
    return 0


def found_browser() -> str:
    """The browser's executable; ends the script with a line of advice where anything lacks."""
    if importlib.util.find_spec("playwright") is None:
        sys.exit("playwright is not installed: pip install playwright")
    named = os.environ.get("VIPER_BROWSER")
    found = named or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        sys.exit("no chromium found: apt-get install chromium, or name one in VIPER_BROWSER")
    return found


def corrected(folder: Path, limit: int) -> tuple[Path, Row]:
    """The first run in which a correction led to a right place, and that sample's row."""
    for seed in SEEDS:
        run = folder / "first"
        shutil.rmtree(run, ignore_errors=True)
        command = f"eval world --split val --profile embedded --limit {limit} --seed {seed}"
        subprocess.run(viper(*command.split(), "--no-html", "--out", str(run)), check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        with RunStore.read(run) as store:
            for row in store.rows():
                trace = store.trace(row.sample_id, row.seed) or {"trials": ()}
                if row.task == "ground" and row.score == 1 and len(trace["trials"]) > 1:
                    return run, row
        print(f"seed {seed}: no right answer needed a correction", file=sys.stderr)
    sys.exit(f"no correction in {len(SEEDS)} runs of {limit} samples: try a larger --limit")


def viper(*arguments: str) -> list[str]:
    """The command line as the package of this interpreter runs it."""
    return [sys.executable, "-m", "viper", *arguments]


@contextmanager
def served(run: Path) -> Iterator[str]:
    """The address at which ``viper view`` shows a run."""
    process = subprocess.Popen(viper("view", str(run), "--no-open"), stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            sys.exit("viper view did not start; run it by itself to see why")
        yield address
    finally:
        process.terminate()
        process.wait()


@contextmanager
def tab(executable: str) -> Iterator[Any]:
    """An empty page of a browser, light and as wide as the pictures."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        # wait_for_function evaluates text, which the atlas's policy forbids
        yield browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", bypass_csp=True
        )
        browser.close()


def shot(page: Any, part: Any | None = None) -> bytes:
    """A page from its top, as high as the window; or a part of it with some room around."""
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT}
    if part is not None:
        box = part.bounding_box()
        clip |= {"y": int(box["y"]) - ROOM, "height": int(box["height"]) + 2 * ROOM}
    taken: bytes = page.screenshot(full_page=True, clip=clip)
    return taken


def written(path: Path, png: bytes) -> None:
    """Keeps a picture with few colours, which makes it small."""
    picture = Image.open(BytesIO(png)).convert("RGB")
    # picks colours by how far apart they are, so that the red of three words is not lost to grays
    few = picture.quantize(
        COLORS, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE
    )
    few.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path}: {picture.width} x {picture.height}, {size / 1000:.0f} kB")
    if size > MOST_BYTES:
        sys.exit(f"{path} is larger than {MOST_BYTES / 1000:.0f} kB")


if __name__ == "__main__":
    sys.exit(main())
