"""What the tools that look beyond the picture do with their providers.

As in :mod:`viper.tools.tool_functions`, one function a tool, with the session of the run and the
arguments as the program gave them. A provider that fails makes the call fail, and says by its name
why; what it found is cut to bounds before anybody sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from viper.api.routines.knowledge import ABOUT
from viper.errors import ToolError
from viper.models.vision.roles import Pixels, TextLine
from viper.search.findings import SimilarPicture, TextFindings, plain
from viper.tools.crops import object_crop
from viper.tools.session import ToolSession
from viper.tools.tool_functions import _cut, _text

RESULTS = 10
"""Pictures or passages of a search."""

MAX_WRITTEN = 2_000
"""Characters that are kept of what is written in a picture."""

_LEAST_SIDE = 96
"""Pixels of the shorter side to which a small part is enlarged before it is read."""


def ocr(session: ToolSession, patch: Any) -> str:
    """What is written in a patch and close to it, a line each, from top to bottom."""
    return "\n".join(line.text for line in written(session, patch))[:MAX_WRITTEN]


def written(session: ToolSession, patch: Any) -> list[TextLine]:
    """The lines of text in a patch, with the margin that the profile shows around boxes.

    Labels often stand out of the box of what they belong to. Boxes are in pixels of the part as it
    was read.
    """
    region = session.region(patch)
    if region.is_empty:
        return []
    margin = round(session.toolbox.settings.crop_margin * min(region.image_size))
    (x0, y0, x1, y1), (width, height) = region.box, region.image_size
    corner = (max(0, x0 - margin), max(0, y0 - margin))
    box = (*corner, min(width, x1 + margin), min(height, y1 + margin))
    picture = session.media.pixels(region.image_id)
    key = (session.media.content_hash(region.image_id), box)
    found: list[TextLine] = session.computed_late(
        "ocr", key, "read", lambda: [_readable(_cut(picture, box))]
    )
    cleaned = [replace(line, text=plain(line.text)) for line in found]
    readable = [line for line in cleaned if line.text]
    return sorted(readable, key=lambda line: (round(line.box[1] / 8), line.box[0]))


def image_search(session: ToolSession, patch: Any, about: str = "entities") -> list[str]:
    """What is known of pictures like the patch, the most similar first, each text once."""
    if about not in ABOUT:
        raise ToolError(f"about must be one of {', '.join(ABOUT)}")
    told: dict[str, None] = {}
    for one in similar_pictures(session, patch):
        told.update(dict.fromkeys(filter(None, _told(one, about))))
    return list(told)


def similar_pictures(session: ToolSession, patch: Any) -> Sequence[SimilarPicture]:
    """The pictures of the collection that are most like a patch.

    Those below ``image_search.threshold`` are left out, if they are not the very same.
    """
    region = session.region(patch)
    if region.is_empty:
        return []
    key = (session.media.content_hash(region.image_id), region.box, RESULTS)
    found: Sequence[SimilarPicture] = session.computed_late(
        "image_search", key, "similar", lambda: [_square(session, patch), RESULTS]
    )
    name = "image_search.threshold"
    session.record_scores(name, (one.score for one in found), keeps_all=True)
    least = session.threshold(name)
    return [one for one in found if one.identical or one.score >= least]


def text_search(session: ToolSession, query: str) -> list[str]:
    """Passages with their titles, the best first; a direct answer before them."""
    found = found_texts(session, query)
    passages = [f"{one.title}: {one.text}" if one.title else one.text for one in found.passages]
    return [found.direct, *passages] if found.direct else passages


def found_texts(session: ToolSession, query: str) -> TextFindings:
    """What a search among texts finds."""
    wanted = _text(query, "query")
    found: TextFindings = session.computed("text_search", (wanted,), "search", wanted, RESULTS)
    return found


def _told(one: SimilarPicture, about: str) -> list[str]:
    if about == "entities":
        return [
            f"{each.name}: {each.description}" if each.description else each.name
            for each in one.entities
        ]
    if about == "titles":
        return [one.title]
    return [one.caption] if about == "captions" or one.identical else []


def _square(session: ToolSession, patch: Any) -> Pixels:
    """The patch as the matcher is shown objects; a whole picture as it is."""
    region = session.region(patch)
    picture = session.media.pixels(region.image_id)
    if region.is_whole:
        return picture
    return object_crop(picture, region.box, session.toolbox.settings.crop_margin)


def _readable(pixels: Pixels) -> Pixels:
    """The part, enlarged by a whole number where it is small."""
    times = -(-_LEAST_SIDE // max(1, min(pixels.shape[:2])))
    if times <= 1:
        return np.ascontiguousarray(pixels)
    from PIL import Image

    height, width = pixels.shape[:2]
    larger = Image.fromarray(pixels).resize(
        (width * times, height * times), Image.Resampling.BICUBIC
    )
    return np.asarray(larger)


KNOWLEDGE_TOOLS: dict[str, Callable[..., Any]] = {
    "ocr": ocr,
    "image_search": image_search,
    "text_search": text_search,
}
