"""Files are decoded in processes that can be killed, within limits; and the formats of phones."""

from __future__ import annotations

import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests import hostile_media
from tests.processes import descendants
from viper.data.own import PICTURE_SUFFIXES
from viper.errors import CancelledError, MediaError
from viper.models import decoding
from viper.models.decoding import decode, limited
from viper.models.media import load_media, media_from, picture_from, write_mp4

RAMP = np.tile(np.linspace(0, 255, 64, dtype=np.uint8)[None, :, None], (48, 1, 3))


def frames(count: int) -> Any:
    """Frames whose left half is bright in the first one and dark later."""
    made = np.zeros((count, 48, 64, 3), np.uint8)
    made[0, :, :32] = 250
    return made


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A TIFF whose pages are a chain of 60,000 directories that leads to no end."""
    path = tmp_path / "slow.tif"
    hostile_media.tiff(path)
    return path


def test_pages_are_not_counted(slow: Path) -> None:
    begun = time.monotonic()
    media = media_from(slow)
    assert media.images[0].shape == (48, 64, 3) and "several pages" in media.notes[0]
    assert time.monotonic() - begun < 20


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A large animation, which takes seconds to decode."""
    path = tmp_path_factory.mktemp("endless") / "endless.gif"
    noise = np.random.default_rng(0).integers(0, 255, (24, 700, 900), np.uint8)
    pictures = [Image.fromarray(each) for each in noise]
    pictures[0].save(path, save_all=True, append_images=pictures[1:] * 8, optimize=False)
    return path


def test_what_takes_too_long_is_ended_and_its_process_with_it(endless: Path) -> None:
    before = set(descendants_here())
    begun = time.monotonic()
    with limited(0.3), pytest.raises(MediaError, match="takes too long"):
        decode(endless)
    assert time.monotonic() - begun < 5
    assert set(descendants_here()) <= before
    assert decode_ramp(endless.parent)


def test_a_cancelled_reading_ends_at_once(endless: Path) -> None:
    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    begun = time.monotonic()
    with limited(cancel=cancel), pytest.raises(CancelledError):
        decode(endless)
    assert time.monotonic() - begun < 5


def descendants_here() -> list[int]:
    import os

    return descendants(os.getpid())


def decode_ramp(folder: Path) -> bool:
    Image.fromarray(RAMP).save(folder / "ramp.png")
    return bool((decode(folder / "ramp.png").pixels == RAMP).all())


def test_a_killed_worker_is_one_line_and_the_next_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decode_ramp(tmp_path)
    worker = decoding._WORKERS.take()
    worker.process.kill()
    worker.process.wait()
    decoding._WORKERS.put(worker)
    assert decode_ramp(tmp_path)


def test_the_pixels_of_a_request_are_bounded_before_they_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "MAX_PIXELS", 5_000)
    monkeypatch.setattr(decoding.Limited, "pixels", 5_000)
    names = [tmp_path / f"{number}.png" for number in range(2)]
    for name in names:
        Image.fromarray(RAMP).save(name)
    with limited() as limits:
        limits.pixels = 5_000
        with pytest.raises(MediaError, match="1.png: 3,072 pixels; at most"):
            load_media(names)


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture of 200 KB that took 2.8 GB: sixteen bits, of one value."""
    path = tmp_path / "deep.png"
    Image.fromarray(np.zeros((9_000, 9_000), np.uint16)).save(path, compress_level=9)
    assert path.stat().st_size < 400_000
    assert media_from(path).images[0].shape == (9_000, 9_000, 3)
    for worker in descendants_here():
        status = Path(f"/proc/{worker}/status").read_text()
        assert int(status.split("VmHWM:")[1].split()[0]) < 1_500_000  # KB


def test_workers_stay_for_the_next_file(tmp_path: Path) -> None:
    assert decode_ramp(tmp_path)
    before = set(descendants_here())
    assert decode_ramp(tmp_path)
    assert set(descendants_here()) == before


def test_many_threads_share_few_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To start one takes as long as to decode a hundred small pictures."""
    Image.fromarray(RAMP).save(tmp_path / "ramp.png")
    started = list[object]()

    class Counted(decoding._Worker):
        def __init__(self) -> None:
            started.append(self)
            super().__init__()

    decoding._WORKERS.end()
    monkeypatch.setattr(decoding, "_Worker", Counted)
    monkeypatch.setattr(decoding, "_WAIT_S", 10)  # a busy machine starts them slowly
    with ThreadPoolExecutor(24) as threads:
        list(threads.map(lambda _: decode(tmp_path / "ramp.png"), range(200)))
    assert len(started) <= decoding._USUAL
    assert decoding._WORKERS._busy == 0


def test_a_worker_out_of_step_is_not_used_again(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here Ctrl-C came twice: the second one while the worker was to be ended."""

    def interrupted(worker: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(decoding._Worker, "end", interrupted)
        patched.setattr(decoding._Worker, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            decode(endless)
    assert decoding._WORKERS._busy == 0
    assert decode_ramp(tmp_path)


def test_files_that_keep_workers_busy_do_not_keep_others_waiting(
    endless: Path, tmp_path: Path
) -> None:
    cancel = threading.Event()

    def read(_: int) -> None:
        with limited(cancel=cancel), pytest.raises(CancelledError):
            decode(endless)

    count = 2 * decoding._USUAL
    with ThreadPoolExecutor(count) as threads:
        reading = threads.map(read, range(count))
        try:
            assert decode_ramp(tmp_path)
        finally:
            cancel.set()
        list(reading)
    assert decoding._WORKERS._busy == 0


def test_a_worker_that_was_started_in_advance_reads_the_first_file(tmp_path: Path) -> None:
    decoding._WORKERS.end()
    decoding.start_worker()
    (worker,) = decoding._WORKERS._idle
    assert decode_ramp(tmp_path)
    assert decoding._WORKERS._idle == [worker]


@pytest.mark.parametrize("suffix", ["webp", "png", "gif", "avif"])
def test_animations_are_videos(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"moving.{suffix}"
    first, *rest = [Image.fromarray(frame) for frame in frames(5)]
    first.save(path, save_all=True, append_images=rest, duration=100)
    media = media_from(path)
    assert media.video is not None and media.video.shape[1:] == (48, 64, 3)
    assert media.video[0, 24, 8, 0] > 200 > media.video[-1, 24, 8, 0]


def test_heic_pictures_are_read(tmp_path: Path) -> None:
    import pillow_heif

    pillow_heif.from_pillow(Image.fromarray(RAMP)).save(tmp_path / "phone.heic", quality=95)
    (picture,) = media_from(tmp_path / "phone.heic").images
    assert picture.shape == RAMP.shape and abs(picture.astype(int) - RAMP).mean() < 8


@pytest.mark.parametrize("suffix", [".heic", ".ppm", ".avif", ".tif"])
def test_pictures_that_are_read_are_found_in_folders(suffix: str) -> None:
    assert suffix in PICTURE_SUFFIXES


def test_paths_and_pictures_mix(tmp_path: Path) -> None:
    Image.fromarray(RAMP).save(tmp_path / "a.png")
    media = media_from([tmp_path / "a.png", Image.fromarray(RAMP), RAMP])
    assert [image.shape for image in media.images] == [RAMP.shape] * 3


def test_pages_are_chosen_by_number(tmp_path: Path) -> None:
    path = tmp_path / "scan.tif"
    pages = [Image.fromarray(np.full((8, 8, 3), shade, np.uint8)) for shade in (10, 200)]
    pages[0].save(path, save_all=True, append_images=pages[1:])
    first, second = media_from(path), media_from(path, page=2)
    assert (first.images[0][0, 0, 0], second.images[0][0, 0, 0]) == (10, 200)
    assert "several pages" in first.notes[0] and not second.notes
    with pytest.raises(MediaError, match="no page 3"):
        media_from(path, page=3)


def turned(path: Path, quarters: int) -> None:
    """Write into the header of an MP4 how a player turns its pictures, clockwise."""
    a, b, c, d = [(1, 0, 0, 1), (0, 1, -1, 0), (-1, 0, 0, -1), (0, -1, 1, 0)][quarters]
    data = bytearray(path.read_bytes())
    matrix = struct.pack(">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30)
    at = data.index(b"tkhd") + 4 + 40  # version 0: the matrix stands there
    assert struct.unpack(">i", data[at : at + 4])[0] == 1 << 16
    data[at : at + 36] = matrix
    path.write_bytes(data)


def test_videos_are_turned_as_players_show_them(tmp_path: Path) -> None:
    path = tmp_path / "phone.mp4"
    write_mp4(path, frames(3))
    turned(path, 1)  # by 90 degrees clockwise: what was left is above
    video = media_from(path).video
    assert video is not None and video.shape[1:] == (64, 48, 3)
    assert video[0, 8, 24, 0] > 200 > video[0, 56, 24, 0]


def test_frames_are_spread_over_the_time_and_not_over_their_number(tmp_path: Path) -> None:
    path = tmp_path / "phone.mkv"
    import av

    times = [*range(0, 2_000, 20), *range(2_000, 8_000, 100)]  # ms: fast for 2 s, slow for 6
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=50)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for image, time_ms in zip(frames(len(times)), times, strict=True):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = time_ms // 20, Fraction(1, 50)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    kept = media_from(path).times
    assert len(kept) > 25 and sum(second < 2 for second in kept) / len(kept) < 0.35
    assert {round(1_000 * second) for second in kept} <= set(times)


@pytest.mark.parametrize(("share", "rate"), [(0.5, 8), (0.9, 10), (0.9, 25)])
def test_what_a_cut_video_lost_is_told(tmp_path: Path, share: float, rate: int) -> None:
    path = tmp_path / "cut.mkv"
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        noise = np.random.default_rng(0).integers(0, 255, (40, 48, 64, 3), np.uint8)
        for image in noise:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    whole = media_from(path)
    assert whole.video is not None and not whole.notes
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: int(len(data) * share)])
    part = media_from(path)
    assert part.video is not None and 0 < len(part.video) < len(whole.video)
    assert "is cut: " in part.notes[0] and f" of {40 / rate:.1f} s" in part.notes[0]


def test_a_worker_imports_nothing_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder may be a stranger's: a module of his would run in place of the library's."""
    for name in ("re", "numpy", "PIL"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    decoding._WORKERS.end()
    assert decode_ramp(tmp_path) and not (tmp_path / "ran").exists()


def test_pictures_inside_other_files_are_decoded_in_workers_too(endless: Path) -> None:
    with limited() as limits:
        limits.pixels = 5_000
        with pytest.raises(MediaError, match=r"^row 7: 630,000 pixels; at most"):
            picture_from(endless.read_bytes(), "row 7")
