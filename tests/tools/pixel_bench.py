"""A session without models, and the names that programs use on its pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from viper.api import prelude
from viper.api.image_patch import ImagePatch
from viper.models.media import Media
from viper.tools.models import ModelSet
from viper.tools.parent_routines import api_client
from viper.tools.session import ToolSession, media_arguments
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox

WIDTH, HEIGHT = 64, 48


def picture() -> np.ndarray[Any, Any]:
    """Gray with a red block at x 10 to 19, y 5 to 8, and a green dot at 40 to 42, 30 to 32."""
    pixels = np.full((HEIGHT, WIDTH, 3), 100, np.uint8)
    pixels[5:9, 10:20] = (255, 0, 0)
    pixels[30:33, 40:43] = (0, 255, 0)
    return pixels


class PixelBench:
    def __init__(self, media: Media | None = None) -> None:
        self.toolbox = Toolbox(ModelSet({}), ToolSettings())
        self.media = media or Media(images=(picture(),))
        self.session: ToolSession = self.toolbox.session(self.media)
        call = api_client(self.session)
        self.names: dict[str, Any] = dict(prelude.names(call, {}))
        handles = media_arguments(self.media)
        if self.media.video is None:
            self.patch = ImagePatch(prelude.decode(handles["image"], call))

    def __getattr__(self, name: str) -> Any:
        return self.names[name]

    def pixels(self, patch: ImagePatch) -> np.ndarray[Any, Any]:
        """The pixels of a patch, ``uint8 [H, W, 3]``."""
        region = self.session.region(prelude.encode(patch))
        x0, y0, x1, y1 = region.box
        return self.media.pixels(region.image_id)[y0:y1, x0:x1]
