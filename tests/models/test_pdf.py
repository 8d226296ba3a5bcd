"""Pages of PDF files as pictures: all, one, and those of broken, locked and huge files."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from viper.errors import MediaError, MissingExtraError
from viper.models import media as media_module
from viper.models.media import media_from, read_picture
from viper.models.media_files import MAX_PAGE_SIDE, PAGE_DPI, opened

pytest.importorskip("pypdfium2")


def pdf(path: Path, *shades: int) -> Path:
    """A file with a page of 2 x 1 inches in each shade of gray."""
    pages = [Image.new("RGB", (200, 100), (shade,) * 3) for shade in shades]
    pages[0].save(path, "PDF", save_all=True, append_images=pages[1:], resolution=100)
    return path


def raw(path: Path, media_box: str = "0 0 72 72", extra: bytes = b"") -> Path:
    """A page without content, as text; readers rebuild the missing table of objects."""
    path.write_bytes(
        b"%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n"
        b"2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj\n"
        b"3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[" + media_box.encode() + b"]>> endobj\n"
        b"trailer <</Root 1 0 R" + extra + b">>\n%%EOF"
    )
    return path


def test_every_page_is_a_picture_in_its_colors(tmp_path: Path) -> None:
    media = media_from(pdf(tmp_path / "a.pdf", 10, 120, 250))
    assert media.kind == "images" and media.names == ("a.pdf",) * 3 and not media.notes
    assert [page.shape for page in media.images] == [(PAGE_DPI, 2 * PAGE_DPI, 3)] * 3
    for page, shade in zip(media.images, (10, 120, 250), strict=True):
        assert page.dtype == np.uint8 and abs(int(page.mean()) - shade) <= 2


def test_the_file_is_closed(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf", 10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with opened(path, 1, picture=False):
            pass
        gc.collect()
    assert not [each for each in caught if each.category is ResourceWarning]


def test_red_stays_red(tmp_path: Path) -> None:
    Image.new("RGB", (50, 50), (250, 20, 10)).save(tmp_path / "red.pdf", resolution=100)
    pixel = media_from(tmp_path / "red.pdf").images[0][50, 50]
    assert pixel[0] > 240 and pixel[1] < 40 and pixel[2] < 40


def test_a_page_may_be_chosen(tmp_path: Path) -> None:
    path = pdf(tmp_path / "a.pdf", 10, 250)
    second = media_from(path, 2)
    assert second.kind == "image" and second.images[0].mean() > 240
    assert media_from(path, 1).images[0].mean() < 20
    assert read_picture(path).mean() < 20
    with pytest.raises(MediaError, match=r"a\.pdf: has no page 3; give a smaller --page"):
        media_from(path, 3)


def test_of_many_pages_the_first_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_module, "MAX_PAGES", 2)
    media = media_from(pdf(tmp_path / "a.pdf", 10, 20, 30))
    assert len(media.images) == 2
    assert media.notes == ("a.pdf has 3 pages; the first 2 are read (--page)",)


@pytest.mark.parametrize("side", ["14400", "1e9"])
def test_a_huge_page_is_scaled_down(side: str, tmp_path: Path) -> None:
    page = media_from(raw(tmp_path / "huge.pdf", f"0 0 {side} 100")).images[0]
    assert max(page.shape) <= MAX_PAGE_SIDE + 1


@pytest.mark.parametrize("content", [b"%PDF-1.7\ngarbage", b"%PDF-", b"%PDF-1.4\n%%EOF"])
def test_a_broken_file_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(content)
    with pytest.raises(MediaError, match=r"broken\.pdf: the PDF is damaged") as caught:
        media_from(tmp_path / "broken.pdf")
    assert "\n" not in str(caught.value)


def test_a_file_with_a_password_is_one_line(tmp_path: Path) -> None:
    key = b"<" + b"00" * 32 + b">"
    locked = b"/ID[<00><00>]/Encrypt<</Filter/Standard/V 1/R 2/P -4/O" + key + b"/U" + key + b">>"
    with pytest.raises(MediaError, match="has a password .*save it again without one"):
        media_from(raw(tmp_path / "locked.pdf", extra=locked))


def test_a_missing_package_is_one_line_with_the_command() -> None:
    assert "viper-reasoner[documents]" in str(MissingExtraError("pypdfium2", "the PDF a.pdf"))
