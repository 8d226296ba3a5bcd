"""The figures of ``docs/photographs.md`` are those of the profiles and of the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import viper
from viper.models.checkpoints import catalogue
from viper.profiles.files import proposed_profiles, read_profile

PAGE = (Path(viper.__file__).parents[1] / "docs" / "photographs.md").read_text("utf-8")
ROWS = re.findall(
    r"^\| `([\w-]+)` \| ([^|]*) \| (none|[\d.]+ GB) \| ([^|]*) \|", PAGE, re.MULTILINE
)


@pytest.mark.parametrize(("name", "needs", "download", "llm"), ROWS, ids=[row[0] for row in ROWS])
def test_download_and_hardware_of_a_profile(name: str, needs: str, download: str, llm: str) -> None:
    document = read_profile(name)
    choices = [*document.models.values(), *document.roles.values()]
    models = {each.model for each in choices if each.model and each.backend != "openai"}
    size = sum(catalogue()[model].disk_gb for model in models)
    assert download == ("none" if not models else f"{size:.1f} GB")
    hardware = document.hardware
    assert hardware is not None
    if hardware.gpu_gib:
        assert f"GPU of {hardware.gpu_gib:g} GB" in needs
    elif name != "endpoint":
        assert f"{hardware.ram_gib:g} GB of memory" in needs
    if document.llm.backend == "openai":
        assert llm == "the endpoint's"
    else:
        size_of = re.search(r"[\d.]+B(-A3B)?", llm)
        assert size_of and f"-{size_of[0]}-" in str(document.llm.model)
        assert ("4 bits" in llm) == ("extra `large`" in needs)
        assert ("4 bits" in llm) == (document.llm.options.get("quantize") == "4bit")
    if "edits pictures" in PAGE.split(f"| `{name}` |")[1].splitlines()[0]:
        assert "inpainter" in document.roles


def test_the_table_has_every_profile_that_setup_proposes() -> None:
    assert {each.name for _, each in proposed_profiles()} <= {row[0] for row in ROWS}


def test_licences_are_those_of_the_catalogue() -> None:
    licences = {facts.licence for facts in catalogue().values()}
    assert "CreativeML Open RAIL++-M" in PAGE and "CreativeML Open RAIL++-M" in licences
    assert not any(facts.gated for facts in catalogue().values())
