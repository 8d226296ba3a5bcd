"""Score how well the profile embedded tells what it does not know.

    python -m benchmarks.outside [--queries] [--own 600]

Pictures that are not of its world: photographs, icons and screenshots that installed packages
contain, and drawings, text, plots and noise that are made here. Prints the share that the domain
flags, by kind; with ``--queries`` five questions about each are answered, and the share of answers
without any warning is printed. Then the share of pictures of the world that are flagged (new
stills, frames of clips, pictures of designs), and of people's questions about it with a word that
is called unknown. About a minute, with ``--queries`` ten.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from benchmarks.everyday import DATA, PEOPLE
from viper.evaluate.intervals import proportion
from viper.models.domain import Domain
from viper.models.media import media_from
from viper.models.vision.roles import Pixels
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper_lab.recipes.domain import pictures

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


def shipped() -> Iterator[tuple[str, Pixels]]:
    """Yield pictures of installed packages, each different one once."""
    seen: set[bytes] = set()
    for package in PACKAGES:
        for file in distribution(package).files or ():
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


def drawn() -> Iterator[tuple[str, Pixels]]:
    """Yield drawings, text, plots and noise."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

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
        figure, axes = pyplot.subplots(figsize=(3.2, 2.4))
        axes.plot(random.normal(size=30).cumsum(), color="C" + str(seed % 9))
        figure.canvas.draw()
        yield "plot", np.asarray(figure.canvas.buffer_rgba())[..., :3]
        pyplot.close(figure)
        noise = random.integers(0, 256, (*SIZE[::-1], 3), dtype=np.uint8)
        yield "noise or plain", noise if seed % 2 else np.full_like(noise, noise[0, 0])


def share(count: int, total: int) -> str:
    """Return a share with its interval and n."""
    part = proportion(count, total)
    return f"{part.value:.3f} [{part.low:.3f}, {part.high:.3f}]  n = {total}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--queries", action="store_true", help="answer questions about each")
    parser.add_argument("--own", type=int, default=600, help="number of pictures of the world")
    options = parser.parse_args()
    profile = load_profile("embedded")
    others = [*shipped(), *drawn()]
    with Reasoner(profile, preload=False) as reasoner:
        domain = reasoner.components.domain
        assert domain is not None
        flagged = defaultdict[str, list[bool]](list)
        for kind, picture in others:
            flagged[kind].append(domain.distance(media_from(picture)) > 1)
        for kind, values in [*flagged.items(), ("all", sum(flagged.values(), []))]:
            print(f"flagged, {kind:<16} {share(sum(values), len(values))}")
        if options.queries:
            results = [
                reasoner.run(picture, query, trials=1) for _, picture in others for query in QUERIES
            ]
            unwarned = sum(each.answer is not None and not each.warnings for each in results)
            print(f"answered without a warning {share(unwarned, len(results))}")
        _own(domain, options.own)
    settings = profile.document.tools
    for name in PEOPLE.values():
        texts = [json.loads(line)["question"] for line in (DATA / name).read_text().splitlines()]
        wrong = sum(bool(domain.unknown_words(text, settings.knows)) for text in texts)
        print(f"unknown words, {name:<30} {share(wrong, len(texts))}")


def _own(domain: Domain, count: int) -> None:
    own = [domain.distance(media_from(p)) > 1 for p in pictures("val", count / 1980, 991)]
    print(f"flagged, its own world    {share(sum(own), len(own))}")


if __name__ == "__main__":
    main()
