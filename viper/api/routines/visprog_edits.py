"""The modules of line programs that need pixels: outlines, faces, changed and tagged pictures.

What they give are patches again: of a picture that the parent made, or with an outline that the
parent holds. A picture that was changed can be looked at and changed like any other.

Source: VisProg (Gupta and Kembhavi 2023) and CLOVA (Gao et al. 2024, table 2). Differs: without
an object there is nothing to change, which is an error that names the cause; ``TAG`` gives
labelled boxes with the picture that shows them.
"""

from __future__ import annotations

from viper.api.image_patch import ImagePatch
from viper.api.registry import routine
from viper.api.routines.visprog_parts import API, Objects, Picture, moved_to, objects_of, part_of
from viper.api.runtime import Call, number, text


@routine(("ground", "edit", "tag"), api=API)
def SEG(call: Call, image: Picture) -> Objects:
    """Segment a picture into objects.

    Every object with its outline and its label, the surest first; an empty list when there
    is none.

    Example:
        # Keep the colour of the bus and make the rest grey
        OBJ0=SEG(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='bus',category=None)
        IMAGE0=COLORPOP(image=IMAGE,object=OBJ1)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _found(call, "segment", part_of(image))


@routine(("ground", "edit", "tag"), api=API)
def FACEDET(call: Call, image: Picture) -> Objects:
    """Find faces of people.

    Gives a list of boxes, the surest first, empty when there is none.

    Example:
        # Hide every face with a smiley
        OBJ0=FACEDET(image=IMAGE)
        IMAGE0=EMOJI(image=IMAGE,object=OBJ0,emoji='smiling_face')
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _found(call, "find_faces", part_of(image))


@routine(("edit",), api=API)
def COLORPOP(call: Call, image: Picture, object: Objects) -> Picture:
    """Keep objects in colour.

    Everything else of the picture becomes grey.

    Example:
        # Color pop of the red umbrella
        OBJ0=LOC(image=IMAGE,object='red umbrella')
        IMAGE0=COLORPOP(image=IMAGE,object=OBJ0)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _changed(call, "color_pop", image, object)


@routine(("edit",), api=API)
def BGBLUR(call: Call, image: Picture, object: Objects) -> Picture:
    """Blur the background of objects.

    The objects stay as they are.

    Example:
        # Blur everything but the girl
        OBJ0=SEG(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='girl',category=None)
        IMAGE0=BGBLUR(image=IMAGE,object=OBJ1)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _changed(call, "blur_background", image, object)


@routine(("edit",), api=API, hide=("seed",))
def REPLACE(
    call: Call,
    image: Picture,
    object: Objects,
    prompt: str,
    seed: int = 0,
) -> Picture:
    """Replace objects by something else.

    ``prompt`` says what is painted in their place; the rest stays as it is. Another ``seed``
    gives another painting.

    Example:
        # Replace the bird with an owl
        OBJ0=SEG(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='bird',category=None)
        IMAGE0=REPLACE(image=IMAGE,object=OBJ1,prompt='an owl')
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    wanted = text(prompt, "prompt")
    return _changed(call, "replace", image, object, wanted, int(number(seed, "seed")))


@routine(("edit",), api=API)
def EMOJI(call: Call, image: Picture, object: Objects, emoji: str) -> Picture:
    """Cover objects with an emoji.

    By its name, such as 'face_with_tongue' or 'smiling_face_with_sunglasses'.

    Example:
        # Hide the face of the singer with sunglasses
        OBJ0=FACEDET(image=IMAGE)
        OBJ1=SELECT(image=IMAGE,object=OBJ0,query='singer',category=None)
        IMAGE0=EMOJI(image=IMAGE,object=OBJ1,emoji='smiling_face_with_sunglasses')
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    return _changed(call, "put_emoji", image, object, text(emoji, "emoji"))


@routine(("tag",), api=API)
def TAG(call: Call, image: Picture, object: Objects) -> Picture:
    """Tag objects with their labels.

    Draws every box with its label; the boxes and labels are the answer of the picture.

    Example:
        # Tag all the cups
        OBJ0=LOC(image=IMAGE,object='cup')
        IMAGE0=TAG(image=IMAGE,object=OBJ0)
        FINAL_RESULT=RESULT(var=IMAGE0)
    """
    patch = part_of(image)
    return ImagePatch(call("tag", patch, moved_to(patch, objects_of(object))))


def _found(call: Call, tool: str, patch: ImagePatch) -> list[ImagePatch]:
    """What a tool finds in a patch, as patches that know their picture's size."""
    if patch._is_empty():
        return []
    found: list[ImagePatch] = call(tool, patch)
    # In place: an empty result is followed through the program by identity.
    found[:] = [one._in(patch._handle) for one in found]
    return found


def _changed(
    call: Call,
    tool: str,
    image: Picture,
    object: Objects,
    *more: str | int,
) -> ImagePatch:
    """The picture as a tool changed it.

    Raises:
        IndexError: there is no object to change it at.
    """
    patch = part_of(image)
    found = moved_to(patch, objects_of(object))
    if not found:
        raise IndexError("there is no object: what was looked for was not found")
    return ImagePatch(call(tool, patch, found, *more))
