"""The domain of a profile: known words, and the look of its pictures."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from viper import profiles
from viper.errors import UsageError
from viper.models.domain import Domain, Look
from viper.models.media import media_from
from viper.models.vision.vocabulary import Vocabulary
from viper.profiles.wiring import load_profile


def stripes(seed: int) -> np.ndarray:
    """Return a picture of dark horizontal stripes of slightly different brightness."""
    random = np.random.default_rng(seed)
    rows = np.where(np.arange(80) // 8 % 2, 60, 90) + random.integers(-15, 15)
    picture = np.broadcast_to(rows[:, None, None], (80, 120, 3))
    return (picture + random.normal(0, 4, picture.shape)).clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def look() -> Look:
    return Look.fit(map(stripes, range(60)), map(stripes, range(100, 160)))


def test_pictures_of_the_domain_are_near_and_others_are_not(look: Look) -> None:
    assert np.mean([look.distance(stripes(seed)) <= 1 for seed in range(200, 300)]) >= 0.95
    assert look.distance(255 - stripes(1)) > 1
    assert look.distance(stripes(1).transpose(1, 0, 2)) > 1
    noise = np.random.default_rng(0).integers(0, 256, (80, 120, 3), dtype=np.uint8)
    assert look.distance(noise) > 1


def test_a_look_is_read_as_written(look: Look, tmp_path: Path) -> None:
    look.write(tmp_path / "look.npz")
    again = Look.read(tmp_path / "look.npz")
    assert again.distance(stripes(1)) == pytest.approx(look.distance(stripes(1)))


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_file_that_holds_no_look_is_one_line(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "look.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"look\.npz: no look of a domain"):
        Look.read(path)


def test_arrays_of_another_shape_are_refused(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "look.npz"
    arrays = {name: getattr(look, name) for name in ("mean", "scale", "components", "deviations")}
    np.savez(path, **arrays, limits=np.ones(3))
    with pytest.raises(UsageError, match="limits has another shape"):
        Look.read(path)


def test_of_a_video_the_nearest_frame_counts(look: Look, tmp_path: Path) -> None:
    look.write(tmp_path / "look.npz")
    domain = Domain("stripes", look_file=tmp_path / "look.npz")
    usual, odd = stripes(250), 255 - stripes(250)
    assert domain.distance(media_from(np.stack([odd, usual, odd]))) <= 1
    assert domain.distance(media_from([usual, odd])) > 1  # pictures: each must be usual


@pytest.mark.parametrize(("side", "unlike"), [(1, True), (8, True), (31, True), (32, False)])
def test_nothing_can_be_told_in_a_picture_of_a_few_pixels(
    look: Look, side: int, unlike: bool
) -> None:
    flat = Look(**{**vars(look), "limits": look.limits * 1e9})
    assert (flat.distance(np.full((side, 2 * side, 3), 90, np.uint8)) > 1) == unlike


def test_words_are_known_with_their_inflections(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("what is the color of  # function words\nstop move\n")
    domain = Domain("stripes", words_file=path)
    unknown = domain.unknown_words("What’s the color of Bob's moving dogs?", lambda word: False)
    assert unknown == ("bob's", "dogs")
    assert domain.unknown_words("stopped dogs", lambda word: word == "dogs") == ()
    assert Domain("anything").unknown_words("dogs", lambda word: False) == ()


def test_a_missing_list_of_words_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no list of words"):
        Domain("stripes", words_file=tmp_path / "none.txt").check()


@pytest.fixture(scope="module")
def world() -> Domain:
    domain = load_profile("embedded").components().domain
    assert domain is not None
    return domain


def drawing(seed: int) -> np.ndarray:
    """Return flat shapes or text on a flat ground, as a drawing program makes them."""
    random = np.random.default_rng(seed)
    picture = Image.new("RGB", (320, 240), tuple(random.integers(0, 256, 3).tolist()))
    draw = ImageDraw.Draw(picture)
    for _ in range(6):
        x, y = random.integers(0, 260), random.integers(0, 180)
        fill = tuple(random.integers(0, 256, 3).tolist())
        if seed % 2:
            draw.ellipse([x, y, x + 50, y + 50], fill=fill)
        else:
            draw.text((x, y), "the quick brown fox jumps", fill=fill)
    return np.asarray(picture)


def test_the_embedded_world_is_told_from_drawings_text_and_noise(world: Domain) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), dtype=np.uint8)
    others = [noise, np.zeros_like(noise), noise // 2, *map(drawing, range(30))]
    flagged = [world.distance(media_from(picture)) > 1 for picture in others]
    assert np.mean(flagged) >= 0.95


def test_its_own_pictures_are_not_flagged(world: Domain) -> None:
    from viper_lab.world.layout import sample_scene
    from viper_lab.world.render import render_scene

    pictures = [render_scene(sample_scene("val", 50_000 + index)).image for index in range(30)]
    assert sum(world.distance(media_from(picture)) > 1 for picture in pictures) <= 1


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("who is this woman?", ("woman",)),
        ("asdkjh qwe", ("asdkjh", "qwe")),
        ("What breed is the dog?", ("breed", "dog")),
        ("how many of the shiny blocks aren't to the left of the sphere?", ()),
        ("Which thing stopped right after the cone had fallen off the table?", ()),
    ],
)
def test_words_of_other_worlds_are_unknown(
    world: Domain, query: str, unknown: tuple[str, ...]
) -> None:
    settings = load_profile("embedded").document.tools
    assert world.unknown_words(query, settings.knows) == unknown


def test_words_of_a_detector_are_known_where_they_stand_together(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("is there a or the any")
    names = Vocabulary(["fire hydrant", "person", "hot dog"], {"hot dog": ["frank"]}, {})
    domain = Domain("", tmp_path / "words.txt", vocabulary=names)

    def unknown(text: str) -> tuple[str, ...]:
        return domain.unknown_words(text, lambda word: False)

    assert unknown("Is there a fire hydrant, or are the people hot dogs?") == ("are",)
    assert unknown("is there a fire or a hot hydrant?") == ("fire", "hot", "hydrant")
    assert unknown("any persons? franks?") == ()
    assert unknown("is there a fire hydrant's or the person’s or a dog's?") == ("dog's",)


def test_an_exclamation_mark_excludes_one_inflection(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("what do look !doing # !look is no comment here\n!looking")
    domain = Domain("", tmp_path / "words.txt")
    text = "what do look do, doing looking looked"
    assert domain.unknown_words(text, lambda word: False) == ("doing", "looking")


def test_photo_lite_knows_words_of_places_and_none_of_activities() -> None:
    words = Path(profiles.__file__).with_name("photo-lite.txt")
    domain = Domain("", words, vocabulary=Vocabulary(["person", "dog"], {}, {}))

    def unknown(text: str) -> tuple[str, ...]:
        return domain.unknown_words(text, lambda word: False)

    for text in (
        "How many people are left of the largest dog?",
        "is ther any red dog in the upper half of this pic, pls",
        "Which is closer to the top edge, the second dog from the right or the person?",
    ):
        assert unknown(text) == (), text
    for text, word in (
        ("What is the person doing?", "doing"),
        ("Is the dog asleep?", "asleep"),
        ("What is the dog made of?", "made"),
        ("Is the person happy?", "happy"),
        ("Who is the person?", "who"),
        ("What time is it?", "time"),
        ("How old is the dog?", "old"),
        ("Is the dog behind the person?", "behind"),
        ("How many women are there?", "women"),
        ("Which brand is it?", "brand"),
    ):
        assert unknown(text) == (word,), text
