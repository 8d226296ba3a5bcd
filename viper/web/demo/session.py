"""State of one visitor: a picture or a clip, and the last answer.

A :class:`DemoSession` copies each upload or drawn scene to a file of its own, and its last choice
is what questions are about.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from viper.data.own import PICTURE_SUFFIXES, VIDEO_SUFFIXES
from viper.errors import MediaError, UsageError
from viper.models.media import Media, media_from, write_mp4
from viper.plugins import Registry

# Most characters of an uploaded file's name to show: one line below the picture.
SHOWN_NAME = 80

DEMO_SCENES = Registry("viper.demo_scenes", "source of scenes")


@dataclass(frozen=True)
class DemoExample:
    """Example query, with options if it is a choice, and the strategy that can answer it."""

    text: str
    options: tuple[str, ...] = ()
    strategy: str = "program"


@dataclass(frozen=True)
class DemoScene:
    """Drawn picture or clip, with queries about it.

    Attributes:
        pixels: ``uint8 [H, W, 3]`` of a picture, ``uint8 [T, H, W, 3]`` of a clip, RGB.
        name: name with the number that draws it again.
        examples: queries about it, each with one answer.
    """

    pixels: NDArray[np.uint8]
    name: str
    examples: tuple[DemoExample, ...]


class SceneSource(Protocol):
    """Protocol of a source of scenes for the demo. The same number gives the same scene."""

    def draw_picture(self, index: int) -> DemoScene: ...

    def draw_clip(self, index: int) -> DemoScene: ...


def scene_source() -> SceneSource | None:
    """Return the first source of scenes that an installed package offers, or None.

    Packages offer one as an entry point of the group ``viper.demo_scenes``.
    """
    return next((point.load() for point in DEMO_SCENES.installed().values()), None)


@dataclass(frozen=True)
class DemoMedia:
    """Picture or clip that a visitor asks about.

    Attributes:
        path: file that is private to the session. The run stores a copy with the first question.
        name: display name.
        media: decoded content of the file.
        examples: queries about it; none for an upload.
    """

    path: Path
    name: str
    media: Media
    examples: tuple[DemoExample, ...] = ()


@dataclass(frozen=True)
class Asked:
    """Answered question of a session.

    Attributes:
        manager: number of the manager that answered it.
        name: display name of its media.
        words: the question and its answer.
    """

    manager: int
    sample_id: str
    name: str
    words: str


@dataclass
class DemoSession:
    """State of one visitor.

    Attributes:
        folder: folder of the visitor's files; None before the first file.
        answered: the question whose answer the page shows, for feedback; None without one.
        history: all answered questions in order.
    """

    folder: Path | None = None
    chosen: DemoMedia | None = None
    answered: Asked | None = None
    history: list[Asked] = field(default_factory=list)
    _files: int = 0

    def upload(self, uploaded: Path, below: Path) -> DemoMedia:
        """Choose a copy of an uploaded file as the media to ask about.

        Args:
            uploaded: the file. Visitors who upload the same file may share it.
            below: parent of the visitors' folders.

        Raises:
            MediaError: the file is not a readable picture or video. The earlier choice stays.
        """
        suffix, name = uploaded.suffix.lower(), uploaded.name[:SHOWN_NAME]
        is_known = suffix in PICTURE_SUFFIXES or suffix in VIDEO_SUFFIXES
        path = self._new_file(below, suffix if is_known else "")
        shutil.copyfile(uploaded, path)
        try:
            media = media_from([path])
        except MediaError as error:
            path.unlink(missing_ok=True)
            raise MediaError(str(error).replace(str(path), name)) from None
        return self.choose(DemoMedia(path, name, media))

    def draw(self, scene: DemoScene, below: Path) -> DemoMedia:
        """Choose a drawn scene or clip. Arguments as for :meth:`upload`."""
        from PIL import Image

        is_clip = scene.pixels.ndim == 4
        path = self._new_file(below, ".mp4" if is_clip else ".png")
        if is_clip:
            write_mp4(path, scene.pixels)
        else:
            Image.fromarray(scene.pixels).save(path)
        # Read back, so that viper view later shows the same pixels.
        return self.choose(DemoMedia(path, scene.name, media_from([path]), scene.examples))

    def asked_about(self) -> DemoMedia:
        """Return the chosen media.

        Raises:
            UsageError: no media are chosen.
        """
        if self.chosen is None:
            raise UsageError("choose a picture or a clip first: upload one, or generate one")
        return self.chosen

    def end(self) -> None:
        """Remove the visitor's files."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _new_file(self, below: Path, suffix: str) -> Path:
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="session-", dir=below))
        self._files += 1
        return self.folder / f"{self._files}{suffix}"

    def choose(self, chosen: DemoMedia) -> DemoMedia:
        """Take media as those to ask about."""
        self.chosen, self.answered = chosen, None
        return chosen
