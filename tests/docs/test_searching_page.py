"""The profiles and the picture description of ``docs/searching.md`` are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import viper
from viper.profiles.files import read_profile
from viper.search.picture_index import NOTES, picture_notes, read_note

PAGE = (Path(viper.__file__).parents[1] / "docs" / "searching.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROFILES = [text for language, text in _BLOCK.findall(PAGE) if language == "toml"]


@pytest.mark.parametrize("text", PROFILES)
def test_a_profile_of_the_page_is_read(text: str, tmp_path: Path) -> None:
    roles = text if "[roles]" in text else f"[roles]\n{text}"
    path = tmp_path / "search.toml"
    path.write_text(f'[llm]\nbackend = "scripted"\n{roles}')
    assert "text_search" in read_profile(str(path)).roles


def test_the_description_of_a_picture_is_read(tmp_path: Path) -> None:
    (line,) = [text for language, text in _BLOCK.findall(PAGE) if language == "json"]
    (tmp_path / NOTES).write_text(line)
    ((name, note),) = picture_notes(tmp_path)
    caption, title, (entity,) = read_note(note)
    assert name == "lamps/17.jpg"
    assert caption == "a red lamp on a desk" and title == "Velora, table lamps"
    assert entity.name == "Velora"
