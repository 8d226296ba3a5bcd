"""``ImagePatch``: a box in a picture, and the questions a program may ask about it.

Lives in the sandbox child: an image handle, four numbers and arithmetic. What
needs a model or pixels goes through the handle's client to the parent. The
marks ``@method`` and the docstrings are what prompts show (:mod:`viper.api.sets`).
A new method also goes into ``READABLE`` of :mod:`viper.api.prelude`; one that asks
a model needs its function in :mod:`viper.tools.tool_functions`.

Source: names and signatures of ViperGPT as listed by Stanić et al. 2024, A.4,
and (``crop_*_bbox``) of DWIM. Differs: a patch may be empty (a strip beside an
object at the border) and then finds nothing, instead of raising; patches
compare by picture and box.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from viper.api.registry import ALL_TASKS, ANSWER_TASKS, MORE, UNLISTED, method
from viper.api.runtime import Caller, FrameSource, ImageHandle, number, text, texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ImagePatch:
    """A rectangular part of an image.

    ``left``, ``lower``, ``right`` and ``upper`` are pixels of the original image, counted
    from its lower left corner: x grows to the right and y grows upwards. So ``lower < upper``,
    and the higher of two patches has the larger ``vertical_center``. ``width``, ``height``,
    ``area``, ``horizontal_center`` and ``vertical_center`` follow from them.
    ``cropped_image`` holds the pixels, uint8 [3, height, width], RGB.

    Two patches are equal if they have the same box in the same image. Two equal calls of
    ``find`` give equal patches; calls with other names or on other patches may box the same
    object slightly differently.

    A patch of width or height 0 is empty: ``find`` returns [], ``exists`` and
    ``verify_property`` return False, and questions about it raise an error.
    """

    __slots__ = ("_handle", "_box", "_outline", "_label")
    _handle: ImageHandle
    _box: tuple[float, ...]
    _outline: str
    _label: str

    def __init__(
        self,
        image: Any,
        left: float | None = None,
        lower: float | None = None,
        right: float | None = None,
        upper: float | None = None,
    ) -> None:
        """Build a patch of a whole image, or of the part between the given borders.

        ``image`` may also be another patch: the borders then count from its lower left
        corner. It may also be a video segment, followed by the index of a frame (-1 is the
        last one).
        """
        if not isinstance(image, ImagePatch | ImageHandle) and isinstance(image, FrameSource):
            image, left = image.frame_handle(0 if left is None else left), None
        if isinstance(image, ImagePatch):
            self._handle, outer = image._handle, image._box
        elif isinstance(image, ImageHandle):
            self._handle, outer = image, (0, 0, image.width, image.height)
        else:
            raise TypeError(
                f"ImagePatch needs an image, a patch or a video segment, not {type(image).__name__}"
            )
        x0, y0, x1, y1 = outer
        left = 0 if left is None else number(left, "left")
        lower = 0 if lower is None else number(lower, "lower")
        right = x1 - x0 if right is None else number(right, "right")
        upper = y1 - y0 if upper is None else number(upper, "upper")
        if left > right or lower > upper:
            raise ValueError(
                f"no such box: left {left}, lower {lower}, right {right}, upper {upper}; "
                "it needs left <= right and lower <= upper (y points up)"
            )
        self._box = _within(outer, x0 + left, y0 + lower, x0 + right, y0 + upper)
        self._outline = self._label = ""

    @classmethod
    def _at(
        cls, handle: ImageHandle, *box: float, outline: str = "", label: str = ""
    ) -> ImagePatch:
        """A patch at absolute coordinates of the handle's image; for our own code.

        Args:
            box: left, lower, right and upper.
            outline: name of a mask that the parent holds, where more is known than the box.
        """
        patch = cls.__new__(cls)
        patch._handle, patch._box = handle, box
        patch._outline, patch._label = outline, label
        return patch

    def _in(self, handle: ImageHandle) -> ImagePatch:
        """The same patch under another handle of its image, which knows the image's size."""
        return ImagePatch._at(handle, *self._box, outline=self._outline, label=self._label)

    def _labelled(self, label: str) -> ImagePatch:
        """The same patch with what it shows by name."""
        return ImagePatch._at(self._handle, *self._box, outline=self._outline, label=label)

    @property
    def left(self) -> float:
        return self._box[0]

    @property
    def lower(self) -> float:
        return self._box[1]

    @property
    def right(self) -> float:
        return self._box[2]

    @property
    def upper(self) -> float:
        return self._box[3]

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.upper - self.lower

    @property
    def area(self) -> float:
        return self.width * self.height

    @property
    def horizontal_center(self) -> float:
        return (self.left + self.right) / 2

    @property
    def vertical_center(self) -> float:
        return (self.lower + self.upper) / 2

    @property
    def label(self) -> str:
        return self._label

    @property
    def cropped_image(self) -> NDArray[np.uint8]:
        return self._call("pixels", self)

    @method(ALL_TASKS, needs="detector")
    def find(self, object_name: str) -> list[ImagePatch]:
        """Find all objects of a name.

        Return a list of patches, the surest first, or [] if nothing was found. A general
        name such as "object" finds everything, also the thing that you compare with. An
        object at the border of this patch is found if the centre of its box lies inside;
        its box may be cut off there or reach beyond the patch.

        Example:
            # How many spoons are on the table?
            def execute_command(image):
                image_patch = ImagePatch(image)
                table_patches = image_patch.find("table") or [image_patch]
                return len(table_patches[0].find("spoon"))
        """
        text(object_name, "object_name")
        if self._is_empty():
            return []
        patches: list[ImagePatch] = self._call("find", self, object_name)
        # In place: an empty result is followed through the program by identity.
        patches[:] = [ImagePatch._at(self._handle, *patch._box) for patch in patches]
        return patches

    @method(ALL_TASKS, needs="detector")
    def exists(self, object_name: str) -> bool:
        """Check whether an object is there.

        Return True if this patch shows at least one.

        Example:
            # Is there a kettle but no cup?
            def execute_command(image):
                image_patch = ImagePatch(image)
                return image_patch.exists("kettle") and not image_patch.exists("cup")
        """
        text(object_name, "object_name")
        return not self._is_empty() and bool(self._call("exists", self, object_name))

    @method(ALL_TASKS, needs="matcher")
    def verify_property(self, object_name: str, visual_property: str) -> bool:
        """Verify a property of an object.

        Assume that the patch shows the object, and return True if it has the property: a
        colour, a size, a shape, a material or a state.

        Example:
            # the wet umbrella
            def execute_command(image):
                image_patch = ImagePatch(image)
                umbrella_patches = image_patch.find("umbrella")
                wet = [one for one in umbrella_patches if one.verify_property("umbrella", "wet")]
                return (wet or umbrella_patches or [image_patch])[0]
        """
        text(object_name, "object_name")
        text(visual_property, "visual_property")
        if self._is_empty():
            return False
        return bool(self._call("verify_property", self, object_name, visual_property))

    @method((*ANSWER_TASKS, "choice"), hide=("prefix",), needs="matcher")
    def best_text_match(self, option_list: Sequence[str], prefix: str | None = None) -> str:
        """Pick the text that fits best.

        Return one of the options, word for word, even if none fits well. Give at least one.
        ``prefix`` is put before each option for the comparison.

        Example:
            # Is the curtain made of silk or of wool?
            def execute_command(image):
                image_patch = ImagePatch(image)
                curtain_patches = image_patch.find("curtain") or [image_patch]
                return curtain_patches[0].best_text_match(["silk", "wool"], prefix="a curtain of")
        """
        options = texts(option_list, "option_list")
        if prefix is None:
            return str(self._call("best_text_match", self, options))
        lead = text(prefix, "prefix")
        whole = [f"{lead} {option}" for option in options]
        return options[whole.index(self._call("best_text_match", self, whole))]

    @method((*ANSWER_TASKS, "choice"), more=("ground", "edit", "tag"), needs="vqa")
    def simple_query(self, question: str | None = None) -> str:
        """Ask a question about the patch.

        Ask for something that a glance at the patch answers, and get a short text. Without a
        question the text says what the patch shows.

        Example:
            # What is the man beside the horse holding?
            def execute_command(image):
                image_patch = ImagePatch(image)
                man_patches = image_patch.find("man") or [image_patch]
                horse_patches = image_patch.find("horse") or [image_patch]
                man_patches.sort(key=lambda man: distance(man, horse_patches[0]))
                return man_patches[0].simple_query("What is the man holding?")
        """
        if question is not None:
            text(question, "question")
        return str(self._call("simple_query", self, question))

    @method(("question", "ground", "statement"), api="dwim", needs="vqa")
    def complex_query(self, question: str) -> str:
        """Ask for an answer in a sentence.

        Ask for something that needs more than a word: why something is so, what happens, how
        things are related.

        Example:
            # Why is the man wet?
            def execute_command(image):
                image_patch = ImagePatch(image)
                man_patches = image_patch.find("man") or [image_patch]
                return man_patches[0].complex_query("Why is the man wet?")
        """
        return str(self._call("complex_query", self, text(question, "question")))

    @method(("question", "ground", "statement"), api="dwim", needs="vqa")
    def caption(self) -> str:
        """Describe the patch in a sentence.

        Example:
            # What is going on at the table?
            def execute_command(image):
                image_patch = ImagePatch(image)
                table_patches = image_patch.find("table") or [image_patch]
                return table_patches[0].caption()
        """
        return str(self._call("caption_image", self))

    @method(ALL_TASKS, needs="depth")
    def compute_depth(self) -> float:
        """Measure the depth of the patch.

        Return the median depth of its pixels, a number from 0 upwards; larger is farther from
        the camera. It has no unit, so compare it with depths in the same image only.

        Example:
            # the farthest tent
            def execute_command(image):
                image_patch = ImagePatch(image)
                tent_patches = image_patch.find("tent") or [image_patch]
                return max(tent_patches, key=lambda tent: tent.compute_depth())
        """
        return float(self._call("compute_depth", self))

    @method(ALL_TASKS)
    def crop(self, left: float, lower: float, right: float, upper: float) -> ImagePatch:
        """Cut out a part of the patch.

        The arguments count in pixels from the lower left corner of this patch, and are cut
        off at its borders. The attributes of the result are those of the original image.

        Example:
            # the flag in the upper half of the picture
            def execute_command(image):
                image_patch = ImagePatch(image)
                width, height = image_patch.width, image_patch.height
                upper_half = image_patch.crop(0, height / 2, width, height)
                flag_patches = upper_half.find("flag") or image_patch.find("flag")
                return flag_patches[0] if flag_patches else upper_half
        """
        return ImagePatch(self, left, lower, right, upper)

    @method(ALL_TASKS)
    def overlaps_with(self, left: float, lower: float, right: float, upper: float) -> bool:
        """Tell whether a box overlaps.

        Return True if the two share an area or touch. The box is in pixels of the original
        image, like the attributes of a patch.

        Example:
            # the cat on the sofa
            def execute_command(image):
                image_patch = ImagePatch(image)
                cat_patches = image_patch.find("cat") or [image_patch]
                for sofa in image_patch.find("sofa"):
                    for cat_patch in cat_patches:
                        if cat_patch.overlaps_with(sofa.left, sofa.lower, sofa.right, sofa.upper):
                            return cat_patch
                return cat_patches[0]
        """
        apart = self.left > right or self.right < left or self.lower > upper or self.upper < lower
        return not apart

    @method(ANSWER_TASKS, api=MORE, hide=("long_answer",), needs="text")
    def llm_query(self, question: str, long_answer: bool = True) -> str:
        """Ask the language model.

        Ask for general knowledge that no picture shows. The model does not see the patch, so
        put all that it needs into the question. ``long_answer=False`` asks for a word or two.

        Example:
            # Which country does this dish come from?
            def execute_command(image):
                image_patch = ImagePatch(image)
                dish = image_patch.simple_query("What dish is this?")
                return image_patch.llm_query(
                    f"Which country does {dish} come from?", long_answer=False
                )
        """
        return str(self._call("llm_query", text(question, "question"), None, bool(long_answer)))

    @method(UNLISTED)
    def best_description_from_options(self, object_name: str, property_list: Sequence[str]) -> str:
        """Describe the object by one option."""
        options = texts(property_list, "property_list")
        text(object_name, "object_name")
        return str(self._call("best_description_from_options", self, object_name, options))

    @method(("question", "ground", "statement"), api="dwim")
    def crop_left_of_bbox(
        self, left: float, upper: float, right: float, lower: float
    ) -> ImagePatch:
        """Keep the part left of a box.

        The box is in pixels of the original image, in the order left, upper, right, lower.
        The result is empty if no part of this patch lies on that side.
        """
        return self._strip(right=min(_borders(left, right)))

    @method(("question", "ground", "statement"), api="dwim")
    def crop_right_of_bbox(
        self, left: float, upper: float, right: float, lower: float
    ) -> ImagePatch:
        """Keep the part right of a box.

        Arguments as in ``crop_left_of_bbox``.
        """
        return self._strip(left=max(_borders(left, right)))

    @method(("question", "ground", "statement"), api="dwim")
    def crop_below_bbox(self, left: float, upper: float, right: float, lower: float) -> ImagePatch:
        """Keep the part below a box.

        Arguments as in ``crop_left_of_bbox``.
        """
        return self._strip(upper=min(_borders(lower, upper)))

    @method(("question", "ground", "statement"), api="dwim")
    def crop_above_bbox(self, left: float, upper: float, right: float, lower: float) -> ImagePatch:
        """Keep the part above a box.

        Arguments as in ``crop_left_of_bbox``.
        """
        return self._strip(lower=max(_borders(lower, upper)))

    @property
    def _call(self) -> Caller:
        return self._handle.call

    def _is_empty(self) -> bool:
        return self.width <= 0 or self.height <= 0

    def _whole_image(self) -> ImagePatch:
        """The patch of the whole picture that this one lies in.

        Raises:
            ValueError: when the size of that picture is not known.
        """
        if not self._handle.width or not self._handle.height:
            raise ValueError(f"the size of image {self._handle.id!r} is not known here")
        return ImagePatch(self._handle)

    def _strip(
        self, left: float = -inf, lower: float = -inf, right: float = inf, upper: float = inf
    ) -> ImagePatch:
        """This patch cut off at absolute borders; empty at its edge when they lie outside it."""
        return ImagePatch._at(self._handle, *_within(self._box, left, lower, right, upper))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ImagePatch):
            return NotImplemented
        return self._handle.id == other._handle.id and self._box == other._box

    def __hash__(self) -> int:
        return hash((self._handle.id, self._box))

    def __repr__(self) -> str:
        return "ImagePatch({}, {}, {}, {})".format(*(round(edge, 1) for edge in self._box))


def _within(outer: Sequence[float], *borders: float) -> tuple[float, ...]:
    """Left, lower, right and upper, cut off at those of ``outer``."""
    limits = (outer[0::2], outer[1::2]) * 2
    return tuple(min(max(b, low), high) for b, (low, high) in zip(borders, limits, strict=True))


def _borders(*values: Any) -> list[float]:
    return [number(value, "border") for value in values]
