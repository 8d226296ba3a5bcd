"""Pictures that are not of the embedded world, for measuring what its profile says about them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from viper.models.vision.roles import Pixels

PACKAGES = ("gradio", "matplotlib", "augly", "sympy", "playwright", "coverage")
SUFFIXES = (".jpg", ".jpeg", ".png")
LEAST_SIDE, LEAST_BYTES = 64, 4_000
QUERIES = (
    "who is this woman?",
    "what color is the car?",
    "is there a dog?",
    "how many people are there?",
    "the largest object",
)
DRAWN = 12
SIZE = (320, 240)


def outside_pictures() -> Iterator[tuple[str, Pixels]]:
    """Yield kind and pixels of photographs, icons and screens, drawings, text, plots and noise.

    The first two kinds are of installed packages, so their number depends on these.
    """
    yield from _shipped()
    yield from _drawn()


def _shipped() -> Iterator[tuple[str, Pixels]]:
    """Yield pictures of installed packages, each different one once."""
    seen: set[bytes] = set()
    for package in PACKAGES:
        try:
            files = distribution(package).files or ()
        except PackageNotFoundError:
            continue
        for file in files:
            path = Path(str(file.locate()))
            if path.suffix.lower() not in SUFFIXES or "baseline" in str(path):
                continue
            content = path.read_bytes() if path.is_file() else b""
            if len(content) < LEAST_BYTES or content in seen:
                continue
            seen.add(content)
            picture = Image.open(BytesIO(content)).convert("RGB")
            if min(picture.size) >= LEAST_SIDE:
                is_photo = path.suffix.lower() != ".png" or "sample_data" in str(path)
                yield ("photograph" if is_photo else "icon or screen"), np.asarray(picture)


def _drawn() -> Iterator[tuple[str, Pixels]]:
    """Yield drawings, text, plots and noise."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    for seed in range(DRAWN):
        random = np.random.default_rng(seed)

        def color(random: np.random.Generator = random) -> tuple[int, ...]:
            return tuple(int(value) for value in random.integers(0, 256, 3))

        shapes = Image.new("RGB", SIZE, color())
        text = Image.new("RGB", SIZE, color())
        for _ in range(8):
            x, y = int(random.integers(0, 260)), int(random.integers(0, 190))
            form = [ImageDraw.Draw(shapes).ellipse, ImageDraw.Draw(shapes).rectangle][seed % 2]
            form([x, y, x + 50, y + 40], fill=color())
            ImageDraw.Draw(text).text((x // 4, y), "the quick brown fox jumps over", fill=color())
        yield "drawing", np.asarray(shapes)
        yield "text", np.asarray(text)
        figure = Figure(figsize=(3.2, 2.4))
        canvas = FigureCanvasAgg(figure)
        figure.add_subplot().plot(random.normal(size=30).cumsum(), color=f"C{seed % 9}")
        canvas.draw()
        yield "plot", np.asarray(canvas.buffer_rgba())[..., :3].copy()
        noise = random.integers(0, 256, (*SIZE[::-1], 3), dtype=np.uint8)
        yield "noise or plain", noise if seed % 2 else np.full_like(noise, noise[0, 0])
