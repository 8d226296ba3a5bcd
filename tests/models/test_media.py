"""Pictures and videos nobody vouches for: answered where possible, one clear line where not."""

import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from random import Random

import av
import numpy as np
import pytest
from PIL import Image

import viper
from viper.errors import MediaError
from viper.models import media_files
from viper.models.decoding import decode
from viper.models.media import load_media, media_from
from viper.models.media_files import MAX_FRAMES, opened, rgb
from viper.schema import clip_id

MEDIA = Path(viper.__file__).parent / "embedded" / "media"


def gradient(height: int = 20, width: int = 30) -> np.ndarray:
    rows = np.linspace(0, 255, height, dtype=np.uint8)[:, None, None]
    return np.broadcast_to(rows, (height, width, 3)).copy()


def write_video(path: Path, frames: int, width: int = 64, height: int = 48) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=8)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for index in range(frames):
            pixels = np.full((height, width, 3), index * 255 // max(frames, 1), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "CMYK", "1"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("x.tif" if mode == "CMYK" else "x.png")
    Image.fromarray(gradient()).convert(mode).save(path)
    image = load_media([path]).images[0]
    assert image.shape == (20, 30, 3) and image.dtype == np.uint8
    assert image[-1].mean() > 200 > 60 > image[0].mean()


@pytest.mark.parametrize("mode", ["L", "P", "RGB", "RGBA", "LA", "CMYK", "1", "I;16", "I", "F"])
def test_strips_give_the_same_as_the_whole(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
    image = Image.fromarray(noise if mode != "I;16" else noise[..., 0].astype(np.uint16) * 200)
    image = image if mode == "I;16" else image.convert(mode)
    whole = rgb(image.copy())
    monkeypatch.setattr(media_files, "_STRIP_PIXELS", 64 * 7)
    assert np.array_equal(rgb(image.copy()), whole)


def test_transparent_pixels_show_white(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(tmp_path / "x.png")
    assert (load_media([tmp_path / "x.png"]).images[0] == 255).all()


def test_sixteen_bits_are_scaled(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 65535], [32768, 0]], np.uint16)).save(tmp_path / "x.png")
    image = load_media([tmp_path / "x.png"]).images[0]
    assert image[0, 1].tolist() == [255] * 3 and 126 <= image[1, 0, 0] <= 128


def test_exif_rotation_is_applied(tmp_path: Path) -> None:
    picture = Image.fromarray(gradient(20, 30))
    exif = picture.getexif()
    exif[0x0112] = 6
    picture.save(tmp_path / "x.jpg", exif=exif)
    assert load_media([tmp_path / "x.jpg"]).images[0].shape == (30, 20, 3)


def test_a_video_is_recognised_by_its_content(tmp_path: Path) -> None:
    media = load_media([write_video(tmp_path / "clip.mp4", 10)])
    assert media.kind == "video" and media.video is not None
    assert media.video.shape == (10, 48, 64, 3)
    assert media.pixels("video0#9").mean() > media.pixels("video0#0").mean() + 100


def test_a_long_video_is_sampled_evenly(tmp_path: Path) -> None:
    media = load_media([write_video(tmp_path / "clip.mp4", 300)])
    frames = np.array(media.times) * 8
    assert MAX_FRAMES // 2 <= len(frames) <= MAX_FRAMES and media.seconds == 37.5
    assert np.allclose(np.diff(frames), 8) and frames[-1] >= 290


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.png", b"", "empty"),
        ("note.png", b"only text, no picture at all\n" * 9, "neither a picture nor a video"),
        ("cut.mp4", b"\x00\x00\x00\x18ftypmp42" + b"\x00" * 40, "neither a picture nor a video"),
    ],
)
def test_what_is_no_media_is_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(MediaError, match=said):
        load_media([tmp_path / name])


def test_a_truncated_picture_is_refused(tmp_path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 80, 3), np.uint8)).save(
        tmp_path / "x.png"
    )
    data = (tmp_path / "x.png").read_bytes()
    (tmp_path / "x.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(MediaError, match="damaged or cut short"):
        load_media([tmp_path / "x.png"])


def test_a_huge_picture_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    Image.new("1", (30_000, 30_000)).save(tmp_path / "x.png")
    with pytest.raises(MediaError, match="x.png: 900,000,000 pixels; at most 100 million"):
        load_media([tmp_path / "x.png"])
    Image.new("1", (10_001, 10_000)).save(tmp_path / "y.png")
    with pytest.raises(MediaError, match="y.png: 10001 x 10000 pixels; at most 100 million"):
        load_media([tmp_path / "y.png"])


def test_a_video_without_frames_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_video(tmp_path / "x.mp4", 2)
    monkeypatch.setattr(media_files, "MAX_DECODED_FRAMES", 0)
    monkeypatch.setattr(media_files, "MAX_FRAMES", 0)
    with pytest.raises(MediaError, match="no frames"), opened(tmp_path / "x.mp4", 1, False) as file:
        file.decode(file)


def test_missing_file_folder_and_mixed_media(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="no such file"):
        load_media([tmp_path / "absent.png"])
    with pytest.raises(MediaError, match="is a folder"):
        load_media([tmp_path])
    Image.fromarray(gradient()).save(tmp_path / "x.png")
    clip = write_video(tmp_path / "clip.mp4", 3)
    with pytest.raises(MediaError, match="give one video alone"):
        load_media([tmp_path / "x.png", clip])


def test_media_from_arrays_and_pil() -> None:
    assert media_from(gradient()).kind == "image"
    assert media_from([gradient(), Image.fromarray(gradient())]).kind == "images"
    assert media_from(np.stack([gradient()] * 3)).kind == "video"
    with pytest.raises(MediaError, match="expected uint8"):
        media_from(gradient().astype(np.float32))


def test_the_hash_follows_the_pixels() -> None:
    first, second = media_from(gradient()), media_from(gradient())
    assert first.content_hash("image0") == second.content_hash("image0")
    assert first.content_hash("image0") != media_from(gradient(21)).content_hash("image0")


def test_a_playlist_reads_no_other_file(tmp_path: Path) -> None:
    shutil.copy(MEDIA / "clip.mp4", tmp_path / "secret.mp4")
    playlist = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:4,\nsecret.mp4\n#EXT-X-ENDLIST\n"
    (tmp_path / "x.m3u8").write_text(playlist)
    (tmp_path / "x.ffconcat").write_text("ffconcat version 1.0\nfile secret.mp4\n")
    for name in ("x.m3u8", "x.ffconcat"):
        with pytest.raises(MediaError, match="neither a picture nor a video"):
            media_from(tmp_path / name)


def test_a_file_s_name_is_no_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(MEDIA / "clip.mp4", tmp_path / "concat:a")
    monkeypatch.chdir(tmp_path)
    assert media_from("concat:a").video is not None


def test_formats_that_start_other_programs_are_refused(tmp_path: Path) -> None:
    eps = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "x.eps").write_text(eps)
    with pytest.raises(MediaError, match="neither a picture nor a video"):
        media_from(tmp_path / "x.eps")


def test_parts_of_a_video_are_read_from_its_bytes_as_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that holds them meanwhile goes with the last media that need it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    part = clip_id(1.0, 1.0, 4)
    expected = media_from(MEDIA / "clip.mp4").frames(part)
    media = media_from((MEDIA / "clip.mp4").read_bytes())
    run = media.for_run()
    del media
    assert (run.frames(part) == expected).all() and not run.paths
    assert pickle.loads(pickle.dumps(run)).source is None
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["bytes"]
    del run
    assert not list(tmp_path.iterdir())
    media_from((MEDIA / "table.png").read_bytes())
    assert not list(tmp_path.iterdir())


def test_bytes_and_gray_arrays_are_pictures(tmp_path: Path) -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    gray = media_from(pixels)
    assert gray.images[0].shape == (3, 4, 3) and (gray.images[0][..., 1] == pixels).all()
    path = tmp_path / "gray.png"
    Image.fromarray(gray.images[0]).save(path)
    assert (media_from(path.read_bytes()).images[0] == gray.images[0]).all()
    with pytest.raises(MediaError):
        media_from(b"no picture")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', "an SVG drawing"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "a damaged HEIC picture"),
        (b"<!DOCTYPE html><html></html>", "a web page"),
    ],
)
def test_a_format_that_people_try_gets_a_hint(content: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(MediaError, match=f"is {what}, which is not read; convert it"):
        media_from(path)


def test_an_address_is_no_file() -> None:
    with pytest.raises(MediaError, match="^https://example.org/cat.jpg: is an address; download"):
        media_from("https://example.org/cat.jpg")


def test_half_a_video_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "half.mp4"
    path.write_bytes((MEDIA / "clip.mp4").read_bytes()[:3000])
    with pytest.raises(MediaError, match=r"half\.mp4: is neither a picture nor a video"):
        media_from(path)


def jpeg_with_a_broken_orientation() -> bytes:
    content = BytesIO()
    exif = b"Exif\0\0II*\0\x08\0\0\0\x05\0\x0e\x01\x02\0\xff\xff\0\0\xff\xff\0\0"
    Image.new("RGB", (9, 9)).save(content, "JPEG", exif=exif)
    return content.getvalue()


def large_picture() -> bytes:
    content = BytesIO()
    Image.new("1", (9_500, 9_500)).save(content, "PNG")
    return content.getvalue()


def tiff_with_many_samples() -> bytes:
    """Pillow logs an error about the samples of a pixel."""
    content = BytesIO()
    Image.new("RGB", (9, 9)).save(content, "TIFF")
    samples = bytes.fromhex("1501030001000000")  # tag 277, a short
    return content.getvalue().replace(samples + b"\x03", samples + b"\xff")


@pytest.mark.parametrize(
    "content", [jpeg_with_a_broken_orientation, large_picture, tiff_with_many_samples]
)
def test_no_warning_of_a_library_is_printed(content: Callable[[], bytes], tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(content())
    program = (
        "import contextlib, viper.models.media as media\n"
        "with contextlib.suppress(media.MediaError):\n"
        f"    media.media_from({str(tmp_path / 'picture')!r})\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stderr == "" and ended.stdout == ""


SAVED = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "video")


@pytest.mark.parametrize("kind", SAVED)
def test_a_damaged_file_is_one_line_or_readable(kind: str, tmp_path: Path) -> None:
    if kind == "video":
        content = (MEDIA / "clip.mp4").read_bytes()
    else:
        noise = np.random.default_rng(0).integers(0, 255, (40, 50, 3), np.uint8)
        Image.fromarray(noise).save(tmp_path / "whole", kind)
        content = (tmp_path / "whole").read_bytes()
    random = Random(kind)
    refused = 0
    for _ in range(40):
        damaged = bytearray(content)
        for _ in range(6):
            damaged[random.randrange(min(len(damaged), 300))] = random.randrange(256)
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            load_media([tmp_path / "damaged"])
        except MediaError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 0


def test_names_in_a_video_that_are_no_text_do_not_matter(tmp_path: Path) -> None:
    content = (MEDIA / "clip.mp4").read_bytes()
    assert b"VideoHandler" in content
    (tmp_path / "clip.mp4").write_bytes(content.replace(b"VideoH", b"\xff\xfe\xff\xfe\xff\xfe"))
    assert load_media([tmp_path / "clip.mp4"]).kind == "video"


def test_files_that_are_open_are_read(tmp_path: Path) -> None:
    Image.fromarray(gradient()).save(tmp_path / "x.png")
    with (tmp_path / "x.png").open("rb") as file:
        assert (media_from(file).images[0] == gradient()).all()
    streams = [BytesIO((tmp_path / "x.png").read_bytes()) for _ in range(2)]
    assert [(image == gradient()).all() for image in media_from(streams).images] == [True, True]
    with (tmp_path / "x.png").open() as text, pytest.raises(MediaError, match="binary mode"):
        media_from(text)


def test_tensors_are_pictures_with_channels_first_or_last() -> None:
    torch = pytest.importorskip("torch")
    last = torch.tensor(gradient())
    first = last.permute(2, 0, 1)
    for tensor in (last, first, first / 255, (last / 255).double().requires_grad_()):
        assert (media_from(tensor).images[0] == gradient()).all()
    assert (media_from([first, last]).images[1] == gradient()).all()
    clip = media_from(first[None].repeat(4, 1, 1, 1))
    assert clip.video is not None and (clip.video[3] == gradient()).all()


@pytest.mark.parametrize("values", [[-0.5, 1.0], [0.0, 255.0], [float("nan")]])
def test_tensors_of_floats_lie_between_0_and_1(values: list[float]) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(MediaError, match="expected values from 0 to 1"):
        media_from(torch.tensor(values).expand(3, 4, len(values)))


def shown_at(path: Path, *times: float) -> tuple[list[float], list[int]]:
    """Return the times of the frames that are shown then, and the numbers of these frames."""
    decoded = decode(path, times=times)
    return list(decoded.times), [round(frame.mean()) for frame in decoded.pixels]


def test_frames_are_read_by_their_time(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=8)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 64, 48, "yuv420p", 20
        for index in range(240):
            pixels = np.full((48, 64, 3), index, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    times, numbers = shown_at(path, 0, 0.2, 3.99, 21, 21.01, 29.9, 500)
    assert times == [0, 0.125, 3.875, 21, 29.875]  # each once
    assert np.allclose(numbers, np.array(times) * 8, atol=6)


def test_of_a_very_long_video_frames_of_all_its_length_are_sought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_video(tmp_path / "clip.mp4", 3_000)
    monkeypatch.setattr(media_files, "MAX_DECODED_FRAMES", 2_000)
    with opened(path, 1, False) as file:
        pixels = file.decode(file)
    assert len(pixels) == MAX_FRAMES and not file.notes and file.seconds == 375
    assert file.times[0] < 6 and file.times[-1] > 365
    assert np.diff(file.times).max() < 9  # 64 of 375 s, each moved by up to 12 frames


def test_frames_of_an_animation_without_a_clock_have_no_times(tmp_path: Path) -> None:
    frames = [Image.fromarray(gradient() // each) for each in (1, 2, 3)]
    for duration, times in ((0, ()), (500, (0, 0.5, 1))):
        path = tmp_path / f"{duration}.gif"
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=duration)
        assert load_media([path]).times == times
    assert shown_at(path, 0.6, 0.7, 2)[0] == [0.5, 1]


def test_a_transport_stream_is_sought_to_its_frames(tmp_path: Path) -> None:
    """Its packets are found by when they are decoded, and not all can be decoded by themselves."""
    path = tmp_path / "clip.ts"
    with av.open(str(path), "w", format="mpegts") as container:
        stream = container.add_stream("libx264", rate=8)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        stream.options = {"g": "8", "bf": "2"}
        for number in range(240):
            pixels = np.full((32, 32, 3), number, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    for time in (0.0, 5.0, 12.0, 12.5, 20.125, 29.5):
        assert shown_at(path, time)[0] == [time]
