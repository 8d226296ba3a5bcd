"""Tool functions that segment objects and edit pictures.

As in :mod:`viper.tools.tool_functions`, each takes the session of the run and the arguments of the
program. An edited picture is stored with the media of the query, and the tool returns an image
reference. The same edit has the same name in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.models.edited import Tag, outline_of
from viper.models.vision.roles import Detection, Mask, Pixels
from viper.sandbox import Ref
from viper.schema import Box
from viper.tools import edits, soft_prompt_tools
from viper.tools.session import ToolSession
from viper.tools.tool_functions import _cut, _text, centre_inside, searched_part, shifted

# Maximum length of a label in characters; it is part of references, logs and pages.
MAX_LABEL = 200

# Margin of ``replace`` around an outline, as a share of the picture's shorter side.
#
# An object's own colour shines into the pixels around it.
MARGIN_SHARE = 0.01

# Seeds that every generator of random numbers takes.
_SEED_LIMIT = 1 << 31


def segment(session: ToolSession, patch: Any) -> list[Ref]:
    """Return the objects in a patch with outline and label, best score first.

    Like detection it runs on the whole picture or on the crop (``find_scope``). An empty result
    records ``segmenter.threshold`` if it left out weaker segments.
    """
    region = session.region(patch)
    if region.is_empty:
        return []
    place, encoding = searched_part(session, "segmenter", region)
    segments = soft_prompt_tools.segments(session, place, encoding)
    if segments is None:
        segments = session.computed("segmenter", place, "segments", encoding, None)
    refs, scores = [], []
    for item in sorted(segments, key=lambda each: -each.score):
        outline = outline_of(item.mask, place[1][:2], region.image_size)
        if outline is None or not centre_inside(outline.box, region):
            continue
        scores.append(item.score)
        if session.passes("segmenter.threshold", item.score):
            name, label = session.media.edits.add_outline(outline), item.label[:MAX_LABEL]
            refs.append(session.patch_ref(region.image_id, outline.box, name, label))
    session.record_scores("segmenter.threshold", scores, keeps_all=True)
    return refs


def find_faces(session: ToolSession, patch: Any) -> list[Ref]:
    """Return the faces in a patch, best score first, labelled ``face``."""
    region = session.region(patch)
    if region.is_empty:
        return []
    content = session.media.content_hash(region.image_id)
    pixels = _cut(session.media.pixels(region.image_id), region.box)
    faces: list[Detection] = session.computed("faces", (content, region.box), "faces", pixels)
    session.record_scores("faces.threshold", (face.score for face in faces), keeps_all=True)
    places = [
        shifted(face.box, *region.box[:2])
        for face in faces
        if session.passes("faces.threshold", face.score)
    ]
    return [session.patch_ref(region.image_id, place, label="face") for place in places]


def color_pop(session: ToolSession, image: Any, objects: Any) -> Ref:
    """Return the picture in grey except for the objects."""
    canvas = _Canvas(session, image, objects)
    return canvas.store(edits.color_pop(canvas.pixels, canvas.mask()))


def blur_background(session: ToolSession, image: Any, objects: Any) -> Ref:
    """Return the picture blurred except for the objects."""
    canvas = _Canvas(session, image, objects)
    return canvas.store(edits.blur_outside(canvas.pixels, canvas.mask()))


def replace(session: ToolSession, image: Any, objects: Any, prompt: str, seed: int = 0) -> Ref:
    """Return the picture with the content of the prompt painted in place of the objects.

    Pixels outside their outlines, with a small margin, stay unchanged whatever the model paints.
    """
    canvas, text = _Canvas(session, image, objects), _text(prompt, "prompt")
    if not isinstance(seed, int) or not 0 <= seed < _SEED_LIMIT:
        raise ToolError(f"seed must be a whole number from 0 to {_SEED_LIMIT - 1}")
    mask = canvas.mask(with_margin=True)
    content = session.media.content_hash(canvas.region.image_id)
    # all that the mask depends on
    places = tuple((_outline_name(ref), place.box) for ref, place in canvas.objects)
    inputs = (canvas.pixels, mask, text, seed)
    key: tuple[Any, ...] = (content, canvas.region.box, places, text, seed)
    prompts = soft_prompt_tools.inpainter_prompts(session, text)
    if prompts:
        key = (*key, *soft_prompt_tools.prompt_keys(prompts))
        painting = session.computed("inpainter", key, "inpaint_adapted", *inputs, prompts)
    else:
        painting = session.computed("inpainter", key, "inpaint", *inputs)
    return canvas.store(edits.paste_inside(canvas.pixels, mask, painting))


def put_emoji(session: ToolSession, image: Any, objects: Any, emoji: str) -> Ref:
    """Return the picture with an emoji over each object."""
    canvas = _Canvas(session, image, objects)
    picture = edits.emoji_picture(_text(emoji, "emoji"))
    left, top = canvas.region.box[:2]
    boxes = [
        (x0 - left, y0 - top, x1 - left, y1 - top)
        for x0, y0, x1, y1 in (place.box for _, place in canvas.objects)
    ]
    return canvas.store(edits.cover_boxes(canvas.pixels, boxes, picture))


def tag(session: ToolSession, image: Any, objects: Any) -> Ref:
    """Return the picture with the objects' boxes and labels drawn on it, and also store them as
    tags.
    """
    canvas = _Canvas(session, image, objects, least=0)
    part_tags, picture_tags = [], []
    left, top = canvas.region.box[:2]
    for ref, place in canvas.objects:
        width, height = place.image_size
        box = (0.0, 0.0, float(width), float(height))
        if ref.kind == "patch":  # to the fraction of a pixel, clipped to its picture
            sides = Box(*map(float, ref.fields[1:5])).to_pixels(height)
            limits = zip(sides, (width, height) * 2, strict=True)
            x0, y0, x1, y1 = (round(min(max(side, 0.0), float(most)), 2) for side, most in limits)
            box = (x0, y0, x1, y1)
        label = str(ref.fields[6])[:MAX_LABEL] if len(ref.fields) > 6 else ""
        if box[0] >= box[2] or box[1] >= box[3]:
            continue
        part_tags.append(Tag(label, shifted(box, -left, -top)))
        origin = session.media.origin(place.image_id)
        picture_tags.append(Tag(label, shifted(box, origin.x, origin.y)))
    return canvas.store(edits.draw_tagged(canvas.pixels, part_tags), picture_tags)


class _Canvas:
    """Part of a picture to edit, and the objects as references with their regions.

    Raises:
        ToolError: an empty part, no objects, or objects of a picture of another size.
    """

    def __init__(self, session: ToolSession, image: Any, objects: Any, least: int = 1) -> None:
        self.session, self.region = session, session.region(image)
        if self.region.is_empty:
            raise ToolError("the patch is empty: it has no pixels")
        if not isinstance(objects, list | tuple) or len(objects) < least:
            raise ToolError("there is no object to change the picture at")
        self.objects = [(ref, session.region(ref)) for ref in objects]
        if any(place.image_size != self.region.image_size for _, place in self.objects):
            raise ToolError("the objects are in a picture of another size; find them in this one")
        picture = session.media.pixels(self.region.image_id)
        self.pixels: Pixels = np.ascontiguousarray(_cut(picture, self.region.box))

    def mask(self, with_margin: bool = False) -> Mask:
        """Return bool [h, w] of the part: True inside any object, or its box if it has no
        outline.
        """
        whole = edits.box_mask(self.region.image_size, (0, 0, 0, 0))
        steps = round(MARGIN_SHARE * min(self.region.image_size))
        for ref, place in self.objects:
            name = _outline_name(ref)
            if not name:
                whole |= edits.box_mask(place.image_size, place.box)
                continue
            try:
                outline = self.session.media.edits.outline(name)
            except KeyError:
                raise ToolError(f"there is no outline {name[:60]!r} in this query") from None
            if outline.size != place.image_size:
                raise ToolError("the outline is of a picture of another size")
            mask = outline.mask()
            if with_margin and steps:
                from scipy.ndimage import binary_dilation

                mask = binary_dilation(mask, iterations=steps)
            whole |= mask
        return _cut(whole, self.region.box)

    def store(self, pixels: Pixels, tags: Sequence[Tag] | None = None) -> Ref:
        """Store the edited part and return its reference."""
        x, y = self.region.box[:2]
        name = self.session.media.add_edit(pixels, self.region.image_id, x, y, tags=tags)
        return Ref("image", (name, pixels.shape[1], pixels.shape[0]))


def _outline_name(ref: Ref) -> str:
    return str(ref.fields[5]) if ref.kind == "patch" and len(ref.fields) > 5 else ""


PICTURE_TOOLS: dict[str, Callable[..., Any]] = {
    tool.__name__: tool
    for tool in (segment, find_faces, color_pop, blur_background, replace, put_emoji, tag)
}
