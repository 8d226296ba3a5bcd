"""Templates, scripts, styles and pictures of all pages. Templates escape all values.

:func:`rendered` fills a template; :func:`embedded` turns media into data URLs that fit together.
"""

from __future__ import annotations

import base64
import difflib
import io
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viper.errors import MediaError
from viper.escape import template_environment
from viper.evaluate.reports.error_diagram import PARTS
from viper.evaluate.reports.tables import answer_words, target_words
from viper.models.decoding import limited
from viper.models.edited import EDIT_ID
from viper.models.media import Media, media_from
from viper.models.vision.roles import Pixels

if TYPE_CHECKING:
    import jinja2

_HERE = Path(__file__).parent
_KINDS = {".css": "text/css", ".js": "text/javascript"}

# Longest sides with qualities of JPEG, tried until all pictures of a page fit: a smaller picture
# stays sharper than a coarser one.
_STEPS = ((1600, 88), (1200, 85), (960, 82), (640, 80), (480, 76), (320, 72), (224, 68), (160, 60))
# PNG of drawn pictures is small up to about this side, and boxes stay exact to the pixel.
_LOSSLESS_SIDE = 400

# Bytes of a thumbnail, sharp at the width of a card.
THUMBNAIL_BYTES = 12_000

# Most edited pictures that a page shows: a loop may edit hundreds, and all share the page's bytes.
MOST_EDITS = 24


def rendered(template: str, **values: Any) -> str:
    """Render a template with these values."""
    return _templates().get_template(template).render(**values)


@cache
def asset(name: str) -> str:
    """Return the text of a script, or of a style with the colors that reports have, too."""
    text = (_HERE / "static" / name).read_text("utf-8")
    shared = resources.files("viper.evaluate.reports") / "templates"
    colors = ("parts.css", "python.css") if name.endswith(".css") else ()
    return text + "".join((shared / each).read_text("utf-8") for each in colors)


def static_file(name: str, own: Path | None = None) -> tuple[str, str] | None:
    """Return a script or a style with its media type, or None for an unknown name.

    Args:
        own: a further one that may be asked for.
    """
    if own is not None and name == own.name:
        return own.read_text("utf-8"), _KINDS[own.suffix]
    names = {path.name for path in (_HERE / "static").iterdir()}
    return (asset(name), _KINDS[Path(name).suffix]) if name in names else None


def in_seconds(value: float) -> str:
    """Return a duration in a suitable unit."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def line_changes(before: str, after: str) -> list[tuple[str, str]]:
    """Return the lines of both programs in one list, each as ``same``, ``gone`` or ``new``."""
    kinds = {"  ": "same", "- ": "gone", "+ ": "new"}
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [(kinds[line[:2]], line[2:]) for line in lines if line[:2] in kinds]


@cache
def _templates() -> jinja2.Environment:
    environment = template_environment(_HERE / "templates")
    environment.filters["seconds"] = in_seconds
    environment.filters["answer"] = answer_words
    environment.filters["target"] = target_words
    environment.filters["part_class"] = lambda part: f"part-{PARTS.index(part)}"
    return environment


@dataclass(frozen=True)
class PageImage:
    """Picture of a page.

    Attributes:
        name: name in traces: ``image0``, ``video0#7`` or the id of an edited picture.
        width, height: size of the original in pixels, which all boxes refer to.
        address: ``data:`` URL of the picture, possibly scaled down.
    """

    name: str
    width: int
    height: int
    address: str

    @property
    def title(self) -> str:
        """Return the page's name for a picture without a file name."""
        return "edited picture" if EDIT_ID.fullmatch(self.name) else self.name

    @property
    def key(self) -> str:
        """Return the name as the id of an HTML element."""
        return f"picture-{self.name.replace('#', '-')}"


def embedded(media: Media, most_bytes: int, shown: Collection[str] = ()) -> dict[str, PageImage]:
    """Return every picture or frame and the latest edits, scaled down together until they fit.

    Args:
        most_bytes: limit for all pictures together, before base64 adds a third.
        shown: names of edited pictures that are never left out, and of frames of clips.
    """
    shots = media.images if media.video is None else media.video
    numbered = "image{}" if media.video is None else "video0#{}"
    pictures = {numbered.format(number): pixels for number, pixels in enumerate(shots)}
    edits = media.edits.names()
    latest = set(edits[-MOST_EDITS:])
    pictures |= {name: media.pixels(name) for name in edits if name in latest or name in shown}
    with limited(), suppress(MediaError, KeyError):  # the video's file is gone
        pictures |= {name: media.pixels(name) for name in shown if name not in pictures}
    packed: dict[str, tuple[str, bytes]] = {}
    for side, quality in _STEPS:
        packed = {name: _encode(pixels, side, quality) for name, pixels in pictures.items()}
        if sum(len(data) for _, data in packed.values()) <= most_bytes:
            break
    return {name: _image(name, pictures[name], *encoded) for name, encoded in packed.items()}


def thumbnail(path: Path) -> str:
    """Return a data URL of a small copy of a picture, or of a clip's middle frame."""
    media = media_from(path)
    pixels = media.images[0] if media.video is None else media.video[len(media.video) // 2]
    return embedded(media_from(pixels), THUMBNAIL_BYTES)["image0"].address


def shades(depth: Mapping[str, np.ndarray]) -> dict[str, PageImage]:
    """Return depth maps ``[H, W]`` by picture as grey pictures: dark is near, light is far."""
    images = {}
    for name, values in depth.items():
        low, high = float(values.min()), float(values.max())
        # a flat map has no range to stretch, and the small number avoids a division by 0
        grey = (values - low) * (255 / max(high - low, 1e-9))
        pixels = np.repeat(grey.astype(np.uint8)[..., None], 3, axis=2)
        images[name] = _image(f"depth-{name}", values, *_encode(pixels, 320, 75))
    return images


def _image(name: str, original: np.ndarray, kind: str, data: bytes) -> PageImage:
    return PageImage(name, original.shape[1], original.shape[0], data_address(kind, data))


def _encode(pixels: Pixels, side: int, quality: int) -> tuple[str, bytes]:
    """Return media type and bytes. Small pictures are stored without loss."""
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(pixels))
    lossless = quality == _STEPS[0][1] and max(picture.size) <= _LOSSLESS_SIDE
    picture.thumbnail((side, side))
    buffer = io.BytesIO()
    if lossless:
        picture.save(buffer, "PNG", optimize=True)
        return "image/png", buffer.getvalue()
    picture.save(buffer, "JPEG", quality=quality)
    return "image/jpeg", buffer.getvalue()


def data_address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
