"""Pictures of a run's samples, read on request, and thumbnails with boxes.

What a card of the list says is ``card_answer`` in ``web/templates/viewer.html``."""

from __future__ import annotations

import io
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from viper.data.sample import Sample
from viper.errors import ViperError
from viper.evaluate.runs.store import RunStore, keeps_media, samples_of_run
from viper.models.media import Media, media_from
from viper.web.sample_pages import truth_of

# Largest size of a thumbnail, in pixels: that of a card's picture in viewer.html.
WIDTH, HEIGHT = 300, 225

# As --found and --truth of trace.css; dashes tell both apart where colors do not.
PREDICTED, RIGHT = (176, 0, 90), (0, 90, 156)
_DASH, _GAP = 9, 6
# Largest run whose samples are loaded as a whole, some tens of megabytes; those of a larger one are
# loaded for the pages that show them.
_MOST_LOADED = 20_000
# Thumbnails that stay in memory: 25 pages of cards, about 10 MB.
_KEPT = 600


class RunGallery:
    """Media of a run. Its samples are loaded in the background, from the start unless it is large.

    Args:
        root: folder of the set's official files.

    Attributes:
        problem: why there are no pictures; empty if there are.
    """

    def __init__(self, store: RunStore, root: Path | None) -> None:
        self.problem = ""
        self._store, self._root = store, root
        self._samples: Mapping[str, Sample] = {}
        self._ready = threading.Event()
        self._small = lru_cache(_KEPT)(self._render)
        self._is_large = store.count() > _MOST_LOADED
        if self._is_large:
            self._ready.set()
        else:
            self._load({sample_id for sample_id, _ in store.done()})

    def expect(self, ids: Collection[str]) -> None:
        """Load the samples of a page, unless they are loaded."""
        if self._is_large and not self._samples.keys() >= set(ids):
            self._load(ids)

    def _load(self, ids: Collection[str]) -> None:
        self._ready.clear()
        threading.Thread(target=self._read, args=(ids,), name="viewer samples", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the samples are loaded. Return whether they are."""
        return self._ready.wait(timeout_s)

    def media(self, sample_id: str) -> Media | None:
        """Return the media of a sample; None if they cannot be read or are not loaded yet."""
        sample = self._samples.get(sample_id)
        try:
            if sample is None and (self._is_large or keeps_media(self._store)):
                # Not of the latest page, or newer than the gallery: the demo may still be running.
                sample = samples_of_run(self._store, self._root, [sample_id]).get(sample_id)
            if sample is None:
                return None
            return media_from(sample.load())
        except (ViperError, OSError):
            return None

    def small(self, sample_id: str, seed: int) -> bytes | None:
        """Return a JPEG of a result's picture, or of a video's middle frame, with its boxes.

        Return None if the picture cannot be read or is not loaded yet.
        """
        return self._small(sample_id, seed) if self.wait(0) else None

    def _render(self, sample_id: str, seed: int) -> bytes | None:
        from PIL import Image, ImageDraw

        result, media = self._store.row(sample_id, seed), self.media(sample_id)
        if result is None or media is None:
            return None
        video = media.video
        pixels = media.images[0] if video is None else video[len(video) // 2]
        picture = Image.fromarray(np.ascontiguousarray(pixels))
        scale = min(WIDTH / picture.width, HEIGHT / picture.height)
        width, height = (max(1, round(side * scale)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
        draw = ImageDraw.Draw(picture)
        right = truth_of(result).box
        if right is not None:
            _box(draw, [side * scale for side in right], RIGHT, dashed=True)
        box = result.prediction.box if result.prediction is not None else None
        if box is not None:
            _box(draw, [side * scale for side in box], PREDICTED, dashed=False)
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=82)
        return buffer.getvalue()

    def _read(self, ids: Collection[str]) -> None:
        try:
            self._samples = samples_of_run(self._store, self._root, sorted(ids))
            if ids and not self._samples:
                self.problem = "none of its samples are here"
        except (ViperError, OSError) as error:
            self.problem = str(error)
        finally:
            self._ready.set()


def _box(draw: Any, sides: Sequence[float], colour: tuple[int, int, int], *, dashed: bool) -> None:
    """Draw an outline over a white one, visible on any ground. Dashes mark the right box."""
    x0, y0, x1, y1 = sides[0], sides[1], max(sides[0], sides[2]), max(sides[1], sides[3])
    draw.rectangle([x0, y0, x1, y1], outline="white", width=4)
    if not dashed:
        draw.rectangle([x0, y0, x1, y1], outline=colour, width=2)
        return
    for ax, ay, bx, by in ((x0, y0, x1, y0), (x1, y0, x1, y1), (x1, y1, x0, y1), (x0, y1, x0, y0)):
        length = max(1.0, abs(bx - ax) + abs(by - ay))
        for at in np.arange(0, length, _DASH + _GAP):
            start, end = at / length, min(1.0, (at + _DASH) / length)
            draw.line(
                [ax + (bx - ax) * start, ay + (by - ay) * start,
                 ax + (bx - ax) * end, ay + (by - ay) * end],
                fill=colour, width=2,
            )  # fmt: skip
