"""Tool functions that read text and search beyond the picture, by way of providers.

As in :mod:`viper.tools.tool_functions`, each takes the session of the run and the arguments of the
program. If a provider fails, the call fails with its name and reason. Results are cut to a maximum
length before a program sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from viper.api.routines.knowledge import ABOUT
from viper.errors import ToolError
from viper.models.libraries import Image
from viper.models.vision.roles import Pixels, TextLine
from viper.search.findings import SimilarPicture, TextFindings, plain
from viper.tools.session import Region, ToolSession
from viper.tools.tool_functions import _cut, _text, centre_inside, region_crop

# Maximum number of pictures or passages of one search: as many as a prompt can quote.
RESULTS = 10

# Maximum length in characters of the text read in a picture: a page; prompts quote it whole.
MAX_WRITTEN = 2_000

# Lines of one picture that are kept, the upper first, and characters of each: a dense page has some
# hundred lines of eighty.
MAX_LINES, MAX_LINE = 1_000, 200

# A part with a shorter side of fewer pixels is enlarged before reading, because detectors of text
# scale to multiples of 32 pixels and lose lines lower than some of them.
_LEAST_SIDE = 96


def ocr(session: ToolSession, patch: Any) -> str:
    """Return the text in a patch and close to it, top to bottom, with a newline between lines.

    Labels often extend beyond the box of their object, so the part is read with the margin that the
    profile sets around boxes. Boxes of lines are in pixels of the enlarged part.
    """
    region = session.region(patch)
    if region.is_empty:
        return ""
    margin = round(session.toolbox.settings.crop_margin * min(region.image_size))
    (x0, y0, x1, y1), (width, height) = region.box, region.image_size
    corner = (max(0, x0 - margin), max(0, y0 - margin))
    box = (*corner, min(width, x1 + margin), min(height, y1 + margin))
    picture = session.media.pixels(region.image_id)
    key = (session.media.content_hash(region.image_id), box)
    lines: list[TextLine] = session.computed_late(
        "ocr", key, "read", lambda: [_readable(_cut(picture, box))]
    )
    ordered = sorted(lines, key=lambda line: (round(line.box[1] / 8), line.box[0]))
    return "\n".join(filter(None, (plain(line.text) for line in ordered)))[:MAX_WRITTEN]


def text_lines(session: ToolSession, region: Region) -> list[TextLine]:
    """Return the lines of text whose centres lie in a region, the upper first.

    The picture is read once as a whole. Boxes are in its pixels, and answers to the task
    ``extract`` find the lines again in the media.
    """
    name, kept = region.image_id, session.media.lines
    if name not in kept:
        picture, key = session.media.pixels(name), (session.media.content_hash(name), "whole")
        read = session.computed_late("ocr", key, "read", lambda: [picture])
        lines = (replace(line, text=plain(line.text, MAX_LINE)) for line in read)
        ordered = sorted(filter(lambda line: line.text, lines), key=lambda line: line.box[1])
        kept[name] = ordered[:MAX_LINES]
    return [line for line in kept[name] if centre_inside(line.box, region)]


def image_search(session: ToolSession, patch: Any, about: str = "entities") -> list[str]:
    """Return facts about pictures like the patch, most similar first, without repeated texts."""
    if about not in ABOUT:
        raise ToolError(f"about must be one of {', '.join(ABOUT)}")
    facts: dict[str, None] = {}
    for picture in similar_pictures(session, patch):
        facts.update(dict.fromkeys(filter(None, facts_of(picture, about))))
    return list(facts)


def similar_pictures(session: ToolSession, patch: Any) -> Sequence[SimilarPicture]:
    """Return the pictures of the collection that are most like a patch.

    Pictures below ``image_search.threshold`` are left out, except identical ones.
    """
    region = session.region(patch)
    if region.is_empty:
        return []
    key = (session.media.content_hash(region.image_id), region.box, RESULTS)
    pictures: Sequence[SimilarPicture] = session.computed_late(
        "image_search", key, "similar", lambda: [region_crop(session, region), RESULTS]
    )
    name = "image_search.threshold"
    session.record_scores(name, (picture.score for picture in pictures), keeps_all=True)
    return [each for each in pictures if each.identical or session.passes(name, each.score)]


def text_search(session: ToolSession, query: str) -> list[str]:
    """Return passages with their titles, best first, after a direct answer if there is one."""
    text = _text(query, "query")
    findings: TextFindings = session.computed("text_search", (text,), "search", text, RESULTS)
    passages = [
        f"{passage.title}: {passage.text}" if passage.title else passage.text
        for passage in findings.passages
    ]
    return [findings.direct, *passages] if findings.direct else passages


def facts_of(picture: SimilarPicture, about: str) -> list[str]:
    """Return the entities, the title or the caption of a similar picture, one per line."""
    if about == "entities":
        return [
            f"{entity.name}: {entity.description}" if entity.description else entity.name
            for entity in picture.entities
        ]
    if about == "titles":
        return [picture.title]
    return [picture.caption] if about == "captions" or picture.identical else []


def _readable(pixels: Pixels) -> Pixels:
    """Return the part, enlarged by a whole number if it is small."""
    times = -(-_LEAST_SIDE // max(1, min(pixels.shape[:2])))
    if times <= 1:
        return np.ascontiguousarray(pixels)
    height, width = pixels.shape[:2]
    larger = Image.fromarray(pixels).resize(
        (width * times, height * times), Image.Resampling.BICUBIC
    )
    return np.asarray(larger)


KNOWLEDGE_TOOLS: dict[str, Callable[..., Any]] = {
    tool.__name__: tool for tool in (ocr, image_search, text_search)
}
