"""Writing frames as a video file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CLIP_FPS = 8


def write_mp4(
    path: Path, frames: NDArray[np.uint8], fps: int = CLIP_FPS, quality: int = 16
) -> None:
    """Writes ``uint8 [T, H, W, 3]`` RGB frames as H.264 in an MP4 file.

    Args:
        path: replaced if there; appears only once it is whole.
        frames: even width and height (the format halves the colour planes).
        fps: frames per second.
        quality: x264's constant rate factor, 0 best, 51 worst.
    """
    import av

    part = path.with_name(path.name + ".part")
    with av.open(str(part), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=fps)
        stream.width, stream.height = frames.shape[2], frames.shape[1]
        stream.pix_fmt = "yuv420p"
        stream.thread_count = 1
        stream.options = {"crf": str(quality), "preset": "veryfast"}
        for image in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    part.replace(path)


def read_mp4(path: Path) -> NDArray[np.uint8]:
    """All frames of a file that :func:`write_mp4` wrote, ``uint8 [T, H, W, 3]``."""
    import av

    with av.open(str(path)) as container:
        container.streams.video[0].thread_count = 1
        return np.stack([f.to_ndarray(format="rgb24") for f in container.decode(video=0)])
