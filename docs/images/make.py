"""Make the pictures of the documents from answers of the shipped models.

    python docs/images/make.py [--only answer] [--limit 48] [--into docs/images]

``answer.png`` shows an answer beside its program. For ``trace.png`` and ``viewer.png`` the script
answers validation samples of the embedded world, seed by seed, until a sample that asks for a box
was corrected and then answered correctly. ``trace.png`` shows the trials of that sample,
``viewer.png`` shows its run in ``viper view``. The script takes two minutes and needs chromium. It
prints the query of the sample, because the captions name it.
"""

from __future__ import annotations

import argparse
import base64
import html
import importlib.util
import json
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

from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SEEDS = range(5)
IMAGE = Path(__file__).parents[2] / "viper" / "embedded" / "media" / "table.png"
QUERY = "the ball closest to the cyan cube"
PAGE = """<style>body {{ margin: 0 }}
  main {{ display: inline-flex; gap: 20px; padding: 12px; font: 15px sans-serif; background: #fff }}
  img {{ height: 340px; width: auto }} p {{ margin: 0 0 10px }}
  pre {{ margin: 0; font: 13px/1.5 monospace; white-space: pre-wrap; width: 600px }}</style>
  <main><img src="data:image/png;base64,{image}">
  <div><p>Query: <b>{query}</b></p><pre>{program}</pre></div></main>"""
WIDTH, HEIGHT = 1200, 900
ROOM = 12
COLORS = 256
MOST_BYTES = 150_000


def main() -> int:
    """Make the pictures and print their sizes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", choices=["answer"], help="make answer.png alone")
    parser.add_argument("--limit", type=int, default=48, help="samples of a run (48)")
    parser.add_argument("--into", type=Path, default=Path(__file__).parent, metavar="DIR")
    arguments = parser.parse_args()
    executable = find_browser()
    with tempfile.TemporaryDirectory() as folder:
        with open_tab(executable) as page:
            page.set_content(answer_page(Path(folder)))
            save_png(arguments.into / "answer.png", page.locator("main").screenshot())
        if arguments.only == "answer":
            return 0
        run, sample = find_corrected_sample(Path(folder), arguments.limit)
        print(f"{sample.sample_id}, seed {sample.seed}: {sample.text}", file=sys.stderr)
        with serve_viewer(run) as address, open_tab(executable) as page:
            page.goto(f"{address}trace?{urlencode({'id': sample.sample_id, 'seed': sample.seed})}")
            trials = page.locator("section[aria-labelledby=trials-title]")
            save_png(arguments.into / "trace.png", screenshot(page, trials))
            page.goto(f"{address}?sort=worst")
            page.wait_for_function(
                "[...document.querySelectorAll('.grid img')].slice(0, 12)"
                ".every(image => image.naturalWidth > 0)"
            )
            save_png(arguments.into / "viewer.png", screenshot(page))
    return 0


def answer_page(folder: Path) -> str:
    """Answer the README's query and return a page with the answer beside the program."""
    picture = folder / "answer.png"
    command = viper("run", str(IMAGE), QUERY, "--save", str(picture), "--json")
    reply = subprocess.run(command, check=True, capture_output=True, text=True)
    with Image.open(picture) as drawn:
        # --save writes the query below the picture, and the page has it as text
        width, height = drawn.size
        with Image.open(IMAGE) as original:
            area = (0, 0, width, round(width * original.height / original.width))
        part = drawn.crop(area)
    buffer = BytesIO()
    part.save(buffer, "PNG")
    return PAGE.format(
        image=base64.b64encode(buffer.getvalue()).decode(),
        query=html.escape(QUERY),
        program=html.escape(json.loads(reply.stdout)["program"]),
    )


def find_browser() -> str:
    """Return the browser's executable, or end the script with advice if something is missing."""
    if importlib.util.find_spec("playwright") is None:
        sys.exit("playwright is not installed: pip install playwright")
    executable = os.environ.get("VIPER_BROWSER") or next(
        filter(None, map(shutil.which, BROWSERS)), None
    )
    if executable is None:
        sys.exit("no chromium found: apt-get install chromium, or name one in VIPER_BROWSER")
    return executable


def find_corrected_sample(folder: Path, limit: int) -> tuple[Path, SampleResult]:
    """Return the first run in which a corrected sample found the right box, and that sample."""
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
    """Return the command line that runs viper with this interpreter."""
    return [sys.executable, "-m", "viper", *arguments]


@contextmanager
def serve_viewer(run: Path) -> Iterator[str]:
    """Yield the address at which ``viper view`` shows a run."""
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
def open_tab(executable: str) -> Iterator[Any]:
    """Yield an empty page of a browser, in light colours and as wide as the pictures."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        # wait_for_function evaluates text, which the viewer's policy forbids
        yield browser.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", bypass_csp=True
        )
        browser.close()


def screenshot(page: Any, part: Any | None = None) -> bytes:
    """Return the top of a page as PNG, or one part of the page with a margin."""
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT}
    if part is not None:
        box = part.bounding_box()
        clip |= {"y": int(box["y"]) - ROOM, "height": int(box["height"]) + 2 * ROOM}
    png: bytes = page.screenshot(full_page=True, clip=clip)
    return png


def save_png(path: Path, png: bytes) -> None:
    """Save a picture with few colours, which makes the file small."""
    picture = Image.open(BytesIO(png)).convert("RGB")
    # MAXCOVERAGE picks colours that are far apart, so the red of three words survives
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
