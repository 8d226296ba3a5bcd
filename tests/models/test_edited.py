"""Edited pictures and outlines: named by what they hold, kept with the media of one run."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from viper.errors import ToolError
from viper.models import edited
from viper.models.edited import EDIT_ID, Edits, Origin, Tag, outline_of
from viper.models.media import Media, media_from


def picture(shade: int = 7) -> np.ndarray:
    return np.full((6, 8, 3), shade, np.uint8)


def test_equal_pictures_have_one_name() -> None:
    edits = Edits()
    name = edits.add(picture(), Origin("image0"))
    assert EDIT_ID.fullmatch(name) and name in edits
    assert (
        edits.add(picture(), Origin("image0")) == name == Edits().add(picture(), Origin("image0"))
    )
    assert len({name, edits.add(picture(8), Origin("image0"))}) == 2
    assert edits.add(picture(), Origin("image0"), [Tag("a", (0, 0, 1, 1))]) != name


def test_a_kept_picture_cannot_change() -> None:
    edits, given = Edits(), picture()
    name = edits.add(given, Origin("image0"))
    given[:] = 0
    kept = edits.picture(name).pixels
    assert (kept == 7).all()
    with pytest.raises(ValueError, match="read-only"):
        kept[:] = 0


def test_media_know_an_edited_picture_as_any_other() -> None:
    media = media_from(picture())
    name = media.edits.add(picture(9)[:3], Origin("image0", 0, 3))
    assert media.pixels(name).shape == (3, 8, 3)
    assert media.content_hash(name) != media.content_hash("image0")
    assert media.origin(name) == ("image0", 0, 3) and media.origin("image0") == ("image0", 0, 0)
    with pytest.raises(KeyError):
        media.pixels("edit-" + "0" * 24)


def test_what_a_run_makes_is_its_own() -> None:
    media = media_from(picture())
    first = media.for_run()
    name = first.edits.add(picture(9), Origin("image0"))
    assert name not in media.edits and name not in media.for_run().edits
    assert name in first.for_run().edits
    assert isinstance(first, Media) and first.images == media.images


def test_media_can_be_copied_and_sent() -> None:
    media = media_from(picture())
    name = media.edits.add(picture(9), Origin("image0"))
    for other in (copy.deepcopy(media), pickle.loads(pickle.dumps(media))):
        assert (other.pixels(name) == 9).all()


def test_outlines() -> None:
    mask = np.zeros((6, 8), np.bool_)
    mask[2:4, 3:7], mask[2, 3] = True, False
    outline = outline_of(mask)
    assert outline is not None and outline.box == (3, 2, 7, 4)
    assert (outline.mask() == mask).all()
    moved = outline_of(mask, (10, 20), (40, 30))
    assert moved is not None and moved.box == (13, 22, 17, 24) and moved.mask().shape == (30, 40)
    assert outline_of(np.zeros((6, 8), np.bool_)) is None
    edits = Edits()
    assert edits.outline(edits.add_outline(outline)) is outline
    assert edits.add_outline(outline) != edits.add_outline(moved)


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edited, "MAX_BYTES", 2 * picture().nbytes)
    edits = Edits()
    for shade in (1, 2, 2, 1):
        edits.add(picture(shade), Origin("image0"))
    with pytest.raises(ToolError, match="edited pictures of this query take more than"):
        edits.add(picture(3), Origin("image0"))
