"""The modules of line programs, ``--api visprog``: finding, looking, counting and deciding.

A line is ``NAME=MODULE(argument=value,…)``; a program of such lines is plain Python. A box list
holds the surest box first, and modules that take one box take that.

Source: modules, argument names and defaults of VisProg (Gupta and Kembhavi 2023) and CLOVA
(Gao et al. 2024, table 2). Differs: boxes are patches, so their coordinates are those of the
whole picture and a box found in a crop can be used on the picture as well; ``LOC`` also knows
corners and the centre; ``CLASSIFY`` keeps every object of a category, not the best alone.
VisProg's crops begin at the middle of the box, and its ``CROP`` shows half the box's size more
around it; here ``CROP_ABOVE`` and ``CROP_BELOW`` without a box keep the upper and the lower half.
Without an object there is nothing to change, which is an error that names the cause, and ``TAG``
gives labelled boxes with the picture that shows them.

What modules give are patches: a part of a picture, of a picture that the parent made, or with an
outline that the parent holds. The order of this file is the order of modules in prompts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from viper.api.expressions import evaluate
from viper.api.image_patch import ImagePatch
from viper.api.registry import ANSWER_TASKS, IMAGE_TASKS, UNLISTED, routine
from viper.api.runtime import Caller, ImageHandle, number, text

# The API that these modules belong to.
API = "visprog"

Picture: TypeAlias = "ImagePatch | ImageHandle"
Objects: TypeAlias = "Sequence[ImagePatch]"


def part_of(image: Any) -> ImagePatch:
    """The picture, or the part of one, as a patch.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(image, ImagePatch):
        return image
    if isinstance(image, ImageHandle):
        return ImagePatch(image)
    raise TypeError(
        f"image must be a picture such as IMAGE or the result of CROP, not {_kind(image)}"
    )


def objects_of(value: Any, name: str = "object") -> list[ImagePatch]:
    """Boxes or objects as a list; a single one counts as a list of one.

    Raises:
        TypeError: it holds something else.
    """
    if isinstance(value, ImagePatch):
        return [value]
    if not isinstance(value, list | tuple) or not all(isinstance(p, ImagePatch) for p in value):
        raise TypeError(f"{name} must be what LOC, SEG or FACEDET gave, not {_kind(value)}")
    return list(value)


def moved_to(patch: ImagePatch, objects: Sequence[ImagePatch]) -> list[ImagePatch]:
    """Objects as places in the picture that a patch is part of.

    They may have been found in an earlier version of it, before an edit.

    Raises:
        ValueError: they are places in a picture of another size.
    """
    handle = patch._handle
    for own in (item._handle for item in objects):
        if own.id != handle.id and own.shape != handle.shape:
            raise ValueError(
                f"the object is in a picture of {own.width} x {own.height} pixels, "
                f"the image has {handle.width} x {handle.height}; find it in that image"
            )
    return [item._in(handle) for item in objects]


def _kind(value: Any) -> str:
    if isinstance(value, list | tuple) and value:
        return f"a list of {type(value[0]).__name__}"
    return f"a {type(value).__name__}" if value is not None else "nothing"


# What ``CROP`` shows, in widths and heights of the box; VisProg's value.
GROWN = 1.5

_TASKS = ("ground", *ANSWER_TASKS)

# Entries that ``LIST`` may ask for: five times the default of VisProg's prompts, and few enough for
# a language model to name without repeating itself.
MAX_LISTED = 100

# Left, lower, right, upper as shares of the picture.
_REGIONS: Mapping[str, tuple[float, float, float, float]] = {
    "TOP": (0, 0.5, 1, 1),
    "BOTTOM": (0, 0, 1, 0.5),
    "LEFT": (0, 0, 0.5, 1),
    "RIGHT": (0.5, 0, 1, 1),
    "TOP LEFT": (0, 0.5, 0.5, 1),
    "TOP RIGHT": (0.5, 0.5, 1, 1),
    "BOTTOM LEFT": (0, 0, 0.5, 0.5),
    "BOTTOM RIGHT": (0.5, 0, 1, 0.5),
    "CENTER": (0.25, 0.25, 0.75, 0.75),
}

# How the papers write variables; ``RESULT`` takes other texts as answers.
_VARIABLE = re.compile(r"[A-Z]+(?:_[A-Z]+)*[0-9]*")
# Language models list names in one line, in many, with bullets and numbers.
_SEPARATORS = re.compile(r"[,;\n]+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s*|\s*\.\s*$")


@routine(IMAGE_TASKS, api=API, needs="detector")
def LOC(image: Picture, object: str) -> Objects:
    """Find objects of a name.

    Return a list of boxes, the surest first, or [] if nothing was found. The names ``TOP``,
    ``BOTTOM``, ``LEFT``, ``RIGHT``, two of them as in ``TOP LEFT``, and ``CENTER`` stand for
    that part of the picture, which is then the only box.

    Example:
        # Is there a vehicle at the top of the picture?
        BOX0=LOC(image=IMAGE,object='TOP')
        IMAGE0=CROP(image=IMAGE,box=BOX0)
        BOX1=LOC(image=IMAGE0,object='vehicle')
        ANSWER0=COUNT(box=BOX1)
        ANSWER1=EVAL(expr="'yes' if {ANSWER0} > 0 else 'no'")
        FINAL_RESULT=RESULT(var=ANSWER1)
    """
    patch = part_of(image)
    region = _REGIONS.get(" ".join(re.split(r"[\s_-]+", text(object, "object").strip())))
    if region is None:
        matches = patch.find(object)
        # In place: an empty result is followed through the program by identity.
        matches[:] = [match._labelled(object.strip()) for match in matches]
        return matches
    left, lower, right, upper = region
    sides = (left * patch.width, lower * patch.height, right * patch.width, upper * patch.height)
    return [patch.crop(*sides)]


@routine(("ground", *ANSWER_TASKS, "tag"), api=API, needs="vqa")
def VQA(image: Picture, question: str) -> str:
    """Ask a question about a picture.

    Ask for something that a glance at the picture answers, and get a short text.

    Example:
        # What color is the curtain to the right of the mirror?
        BOX0=LOC(image=IMAGE,object='mirror')
        IMAGE0=CROP_RIGHTOF(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What color is the curtain?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return part_of(image).simple_query(text(question, "question"))


@routine(ANSWER_TASKS, api=API)
def COUNT(box: Objects) -> int:
    """Count boxes or objects.

    Return 0 for an empty list.

    Example:
        # How many candles are there?
        BOX0=LOC(image=IMAGE,object='candle')
        ANSWER0=COUNT(box=BOX0)
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return len(objects_of(box, "box"))


@routine(ANSWER_TASKS, api=API)
def EVAL(program_variables: Mapping[str, Any], expr: str) -> Any:
    """Work out an expression over answers.

    ``{NAME}`` stands for the result of an earlier line. Expressions have ``and or xor not``,
    comparisons, ``in``, ``+ - * / // %``, texts in quotes, numbers, and
    ``A if CONDITION else B``. Words for truth values and numbers count as such, and a list
    counts as its length.

    Example:
        # There are three mugs in the two pictures together.
        ANSWER0=VQA(image=LEFT,question='How many mugs are in the image?')
        ANSWER1=VQA(image=RIGHT,question='How many mugs are in the image?')
        ANSWER2=EVAL(expr='{ANSWER0} + {ANSWER1} == 3')
        FINAL_RESULT=RESULT(var=ANSWER2)
    """
    if isinstance(expr, bool | int | float):
        return expr
    return evaluate(text(expr, "expr"), program_variables)


@routine(IMAGE_TASKS, api=API, summary="say what the answer is")
def RESULT(program_variables: Mapping[str, Any], var: Any) -> Any:
    """Name the answer of the program.

    It is the last line of every program: ``FINAL_RESULT=RESULT(var=…)``.

    Example:
        # What is on the bench?
        BOX0=LOC(image=IMAGE,object='bench')
        IMAGE0=CROP_ABOVE(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is on the bench?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    if isinstance(var, str) and _VARIABLE.fullmatch(var) and var in program_variables:
        return program_variables[var]
    return var


@routine(("question", "tag"), api=API, summary="list what the language model knows", needs="text")
def LIST(call: Caller, query: str, max: int = 20) -> list[str]:
    """List names that the language model knows.

    Ask for general knowledge that no picture shows. Return at most ``max`` names, from 1 to
    100, of the things that ``query`` describes.

    Example:
        # Tag the animals that live on land
        OBJ0=LOC(image=IMAGE,object='animal')
        LIST0=LIST(query='animals that live on land',max=20)
        OBJ1=CLASSIFY(image=IMAGE,object=OBJ0,categories=LIST0)
        IMAGE0=TAG(image=IMAGE,object=OBJ1)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    most = int(number(max, "max"))
    if not 1 <= most <= MAX_LISTED:
        raise ValueError(f"max is {most}; LIST gives 1 to {MAX_LISTED} names")
    prompt = f"List at most {most} {text(query, 'query')}. Give only names, separated by commas."
    reply = str(call("llm_query", prompt, None, True))
    names = (_BULLET.sub("", part).strip() for part in _SEPARATORS.split(reply))
    return list(dict.fromkeys(name for name in names if name))[:most]


@routine(("ground", "edit", "tag"), api=API, summary="select the objects that are meant")
def SELECT(
    call: Caller,
    image: Picture,
    object: Objects,
    query: str | None = None,
    category: str | Sequence[str] | None = None,
) -> Objects:
    """Select objects by category or by query.

    ``category`` keeps the objects with this label, or all if none has it. ``query`` keeps the
    objects with this label too. If none has it, it picks the object that looks most like the
    query, and one for each of several queries that are separated by commas. An empty list
    stays empty.

    Example:
        # the black cat
        OBJ0=SEG(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='black cat',category=None)
        FINAL_RESULT=RESULT(var=OBJ1)
    """
    candidates = moved_to(part_of(image), objects_of(object))
    if not candidates:
        return object if isinstance(object, list) else []
    if category is not None:
        candidates = _with_label(candidates, _names(category, "category")) or candidates
    if query is None:
        return candidates
    queries = _names(query, "query")
    if category is None and (matches := _with_label(candidates, queries)):
        return matches
    best = [candidates[_most_like(call, candidates, name)] for name in queries]
    return [patch for place, patch in enumerate(best) if patch not in best[:place]]


@routine(("ground", "tag"), api=API, needs="matcher")
def CLASSIFY(
    call: Caller, image: Picture, object: Objects, categories: str | Sequence[str]
) -> Objects:
    """Give each object a category.

    Return all objects, each with the category that fits it best as its label. With a single
    category, return only the object that fits it best. An empty list stays empty.

    Example:
        # Tag the cups and the bowls
        OBJ0=SEG(image=IMAGE)
        OBJ1=CLASSIFY(image=IMAGE,object=OBJ0,categories=['cup', 'bowl'])
        IMAGE0=TAG(image=IMAGE,object=OBJ1)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    patches = moved_to(part_of(image), objects_of(object))
    names = _names(categories, "categories")
    if not patches:
        return object if isinstance(object, list) else []
    if len(names) == 1:
        return [patches[_most_like(call, patches, names[0])]._labelled(names[0])]
    return [patch._labelled(patch.best_text_match(names)) for patch in patches]


@routine(_TASKS, api=API)
def CROP(image: Picture, box: Objects) -> Picture:
    """Cut out a box.

    Return the box, enlarged by half its size, as a picture. An empty list of boxes gives the
    whole picture.

    Example:
        # What is the man with the umbrella wearing?
        BOX0=LOC(image=IMAGE,object='man with umbrella')
        IMAGE0=CROP(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is the man wearing?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    first = _box(image, box)
    if first is None:
        return part_of(image)
    across, along = first.width * GROWN / 2, first.height * GROWN / 2
    return part_of(image)._strip(
        left=first.horizontal_center - across,
        lower=first.vertical_center - along,
        right=first.horizontal_center + across,
        upper=first.vertical_center + along,
    )


@routine(_TASKS, api=API, summary="cut out what is left of a box")
def CROP_LEFTOF(image: Picture, box: Objects) -> Picture:
    """Cut out the part left of a box.

    It goes from the middle of the box to the left edge. An empty list of boxes gives the
    left half.

    Example:
        # What is to the left of the vase?
        BOX0=LOC(image=IMAGE,object='vase')
        IMAGE0=CROP_LEFTOF(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is it?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return part_of(image)._strip(right=_middle(image, box).horizontal_center)


@routine(_TASKS, api=API, summary="cut out what is right of a box")
def CROP_RIGHTOF(image: Picture, box: Objects) -> Picture:
    """Cut out the part right of a box.

    It goes from the middle of the box to the right edge. An empty list of boxes gives the
    right half.

    Example:
        # the pillow to the right of the dog
        BOX0=LOC(image=IMAGE,object='dog')
        IMAGE0=CROP_RIGHTOF(image=IMAGE,box=BOX0)
        BOX1=LOC(image=IMAGE0,object='pillow')
        FINAL_RESULT=RESULT(var=BOX1)
    """
    return part_of(image)._strip(left=_middle(image, box).horizontal_center)


@routine(_TASKS, api=API, summary="cut out what is above a box")
def CROP_ABOVE(image: Picture, box: Objects) -> Picture:
    """Cut out the part above a box.

    It goes from the middle of the box to the upper edge. An empty list of boxes gives the
    upper half.

    Example:
        # Is there a lamp above the table?
        BOX0=LOC(image=IMAGE,object='table')
        IMAGE0=CROP_ABOVE(image=IMAGE,box=BOX0)
        BOX1=LOC(image=IMAGE0,object='lamp')
        ANSWER0=COUNT(box=BOX1)
        ANSWER1=EVAL(expr="'yes' if {ANSWER0} > 0 else 'no'")
        FINAL_RESULT=RESULT(var=ANSWER1)
    """
    return part_of(image)._strip(lower=_middle(image, box).vertical_center)


@routine(_TASKS, api=API, summary="cut out what is below a box")
def CROP_BELOW(image: Picture, box: Objects) -> Picture:
    """Cut out the part below a box.

    It goes from the middle of the box to the lower edge. An empty list of boxes gives the
    lower half.

    Example:
        # What color is the sign below the antenna?
        BOX0=LOC(image=IMAGE,object='antenna')
        IMAGE0=CROP_BELOW(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What color is the sign?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return part_of(image)._strip(upper=_middle(image, box).vertical_center)


@routine(_TASKS, api=API, summary="cut out what is in front of a box")
def CROP_FRONTOF(image: Picture, box: Objects) -> Picture:
    """Cut out the part in front of a box.

    Return the same as ``CROP``, since a flat picture shows both in the same place.

    Example:
        # What is in front of the house?
        BOX0=LOC(image=IMAGE,object='house')
        IMAGE0=CROP_FRONTOF(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is in front of the house?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return CROP(image, box)


@routine(_TASKS, api=API, summary="cut out what is behind a box")
def CROP_BEHIND(image: Picture, box: Objects) -> Picture:
    """Cut out the part behind a box.

    Return the same as ``CROP``, since a flat picture shows both in the same place.

    Example:
        # Is there a wall behind the boy?
        BOX0=LOC(image=IMAGE,object='boy')
        IMAGE0=CROP_BEHIND(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='Is there a wall?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return CROP(image, box)


@routine(_TASKS, api=API, summary="cut out what is ahead of a box")
def CROP_AHEAD(image: Picture, box: Objects) -> Picture:
    """Cut out the part ahead of a box.

    Return the same as ``CROP``, since a flat picture shows both in the same place.

    Example:
        # What is ahead of the bus?
        BOX0=LOC(image=IMAGE,object='bus')
        IMAGE0=CROP_AHEAD(image=IMAGE,box=BOX0)
        ANSWER0=VQA(image=IMAGE0,question='What is ahead of the bus?')
        FINAL_RESULT=RESULT(var=ANSWER0)
    """
    return CROP(image, box)


@routine(UNLISTED, api=API)
def CROP_INFRONT(image: Picture, box: Objects) -> Picture:
    """Cut out what is in front of a box; another name of ``CROP_FRONTOF``."""
    return CROP(image, box)


@routine(UNLISTED, api=API)
def CROP_INFRONTOF(image: Picture, box: Objects) -> Picture:
    """Cut out what is in front of a box; another name of ``CROP_FRONTOF``."""
    return CROP(image, box)


@routine(UNLISTED, api=API)
def CROP_AHEADOF(image: Picture, box: Objects) -> Picture:
    """Cut out what is ahead of a box; another name of ``CROP_AHEAD``."""
    return CROP(image, box)


@routine(("ground", "edit", "tag"), api=API, needs="segmenter")
def SEG(call: Caller, image: Picture) -> Objects:
    """Segment a picture into objects.

    Return every object with its outline and its label, the surest first, or [] if there is
    none.

    Example:
        # Keep the colour of the bus and make the rest grey
        OBJ0=SEG(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='bus',category=None)
        IMAGE0=COLORPOP(image=IMAGE,object=OBJ1)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _find_objects(call, "segment", part_of(image))


@routine(("ground", "edit", "tag"), api=API, needs="faces")
def FACEDET(call: Caller, image: Picture) -> Objects:
    """Find faces of people.

    Return a list of boxes, the surest first, or [] if there is none.

    Example:
        # Hide every face with a smiley
        OBJ0=FACEDET(image=IMAGE)
        IMAGE0=EMOJI(image=IMAGE,object=OBJ0,emoji='smiling_face')
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _find_objects(call, "find_faces", part_of(image))


@routine(("edit",), api=API)
def COLORPOP(call: Caller, image: Picture, object: Objects) -> Picture:
    """Keep objects in colour.

    Everything else in the picture becomes grey. An empty list of objects raises IndexError.

    Example:
        # Color pop of the red umbrella
        OBJ0=LOC(image=IMAGE,object='red umbrella')
        IMAGE0=COLORPOP(image=IMAGE,object=OBJ0)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _change(call, "color_pop", image, object)


@routine(("edit",), api=API)
def BGBLUR(call: Caller, image: Picture, object: Objects) -> Picture:
    """Blur the background of objects.

    The objects stay as they are. An empty list of objects raises IndexError.

    Example:
        # Blur everything but the girl
        OBJ0=SEG(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='girl',category=None)
        IMAGE0=BGBLUR(image=IMAGE,object=OBJ1)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _change(call, "blur_background", image, object)


@routine(("edit",), api=API, hide=("seed",), needs="inpainter")
def REPLACE(call: Caller, image: Picture, object: Objects, prompt: str, seed: int = 0) -> Picture:
    """Replace objects by something else.

    ``prompt`` describes the things to paint in their place; the rest stays as it is. Another
    ``seed`` gives another painting. An empty list of objects raises IndexError.

    Example:
        # Replace the bird with an owl
        OBJ0=SEG(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='bird',category=None)
        IMAGE0=REPLACE(image=IMAGE,object=OBJ1,prompt='an owl')
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    prompt = text(prompt, "prompt")
    return _change(call, "replace", image, object, prompt, int(number(seed, "seed")))


@routine(("edit",), api=API)
def EMOJI(call: Caller, image: Picture, object: Objects, emoji: str) -> Picture:
    """Cover objects with an emoji.

    ``emoji`` is its name, such as 'face_with_tongue' or 'smiling_face_with_sunglasses'. An
    empty list of objects raises IndexError.

    Example:
        # Hide the face of the singer with sunglasses
        OBJ0=FACEDET(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='singer',category=None)
        IMAGE0=EMOJI(image=IMAGE,object=OBJ1,emoji='smiling_face_with_sunglasses')
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _change(call, "put_emoji", image, object, text(emoji, "emoji"))


@routine(("tag",), api=API)
def TAG(call: Caller, image: Picture, object: Objects) -> Picture:
    """Tag objects with their labels.

    Return the picture with every box and its label drawn. Its boxes and labels are the
    answer.

    Example:
        # Tag all the cups
        OBJ0=LOC(image=IMAGE,object='cup')
        IMAGE0=TAG(image=IMAGE,object=OBJ0)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    patch = part_of(image)
    return ImagePatch(call("tag", patch, moved_to(patch, objects_of(object))))


def _with_label(patches: Sequence[ImagePatch], names: Sequence[str]) -> list[ImagePatch]:
    labels = {name.lower() for name in names}
    return [patch for patch in patches if patch.label.lower() in labels]


def _most_like(call: Caller, patches: Sequence[ImagePatch], name: str) -> int:
    """Return the index of the patch that matches a name best."""
    return 0 if len(patches) == 1 else int(call("best_image_match", list(patches), [name]))


def _names(value: Any, name: str) -> list[str]:
    """Return a list of names from a list or a text with commas; at least one."""
    parts = value.split(",") if isinstance(value, str) else list(value)
    names = [text(part, f"an entry of {name}").strip() for part in parts]
    if not any(names):
        raise ValueError(f"{name} is empty; give at least one name")
    return [name for name in names if name]


def _find_objects(call: Caller, tool: str, patch: ImagePatch) -> list[ImagePatch]:
    """Return the objects that a tool finds in a patch; each knows its picture's size."""
    if patch._is_empty():
        return []
    objects: list[ImagePatch] = call(tool, patch)
    # In place: an empty result is followed through the program by identity.
    objects[:] = [item._in(patch._handle) for item in objects]
    return objects


def _change(
    call: Caller, tool: str, image: Picture, object: Objects, *more: str | int
) -> ImagePatch:
    """Return the picture as a tool changed it.

    Raises:
        IndexError: there is no object to change.
    """
    patch = part_of(image)
    objects = moved_to(patch, objects_of(object))
    if not objects:
        raise IndexError("there is no object: what was looked for was not found")
    return ImagePatch(call(tool, patch, objects, *more))


def _box(image: Picture, box: Objects) -> ImagePatch | None:
    """Return the first of the boxes, which is the surest, or None if there is none."""
    boxes = moved_to(part_of(image), objects_of(box, "box")[:1])
    return boxes[0] if boxes else None


def _middle(image: Picture, box: Objects) -> ImagePatch:
    """Return where a cut begins: the middle of the box, or of the picture if there is no box."""
    return _box(image, box) or part_of(image)
