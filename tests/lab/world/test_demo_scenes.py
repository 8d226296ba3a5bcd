"""What is drawn for the demo, and what is asked about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from viper.web.demo.rendering import media_html
from viper.web.demo.session import DemoSession
from viper_lab.world.demo_scenes import draw_clip, draw_picture
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene


def test_a_number_draws_the_same_scene_again() -> None:
    first, again = draw_picture(7), draw_picture(7)
    assert first.examples == again.examples and first.name == "scene 7"
    assert np.array_equal(first.pixels, again.pixels)
    assert np.array_equal(first.pixels, render_scene(sample_scene("val", 7)).image)


@pytest.mark.parametrize("number", range(4))
def test_examples_differ_and_are_about_the_scene(number: int) -> None:
    texts = [example.text for example in draw_picture(number).examples]
    assert 2 <= len(texts) == len(set(texts)) <= 6
    for example in draw_clip(number).examples:
        assert len(example.options) in (4, 5)


def test_a_drawn_clip_is_shown_and_asked_as_its_file_holds_it(tmp_path: Path) -> None:
    session = DemoSession()
    scene = draw_clip(1)
    chosen = session.draw(scene, tmp_path)
    assert chosen.media.video is not None and chosen.media.video.shape == scene.pixels.shape
    assert session.asked_about() is chosen and chosen.path.suffix == ".mp4"
    html = media_html(chosen)
    assert 'src="data:video/mp4;base64,' in html and "controls" in html


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 5), (2, 961, 3), (64, 540, 960)])
def test_clips_of_any_shape_are_shown(tmp_path: Path, shape: tuple[int, ...]) -> None:
    from viper.models.media import media_from
    from viper.web.demo.session import DemoMedia

    video = np.full((*shape, 3), 99, np.uint8)
    html = media_html(DemoMedia(tmp_path / "x.mp4", "<b>x</b>", media_from(video)))
    assert f"{shape[2]} × {shape[1]} pixels, {shape[0]} frames" in html
    assert "<b>x" not in html
