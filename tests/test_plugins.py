"""Registries of parts: a name has one provider, and an unknown name lists the known ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from viper.errors import UnknownNameError, UsageError
from viper.evaluate.metrics import METRICS, metric
from viper.plugins import offered

# Looks a part up by its name, and names a part that viper ships, for each group.
GROUPS = {
    "viper.backends": ("backends.resolve_backend(*name.split('.'))", "detector.owlv2"),
    "viper.commands": ("lazily.get_command(click.Context(lazily), name) or fail(name)", "exec"),
    "viper.datasets": ("data.data_set(name)", "hub:lmms-lab/GQA"),
    "viper.demo_scenes": ("session.DEMO_SCENES.load(name)", None),
    "viper.exact_inputs": ("exact.EXACT_INPUTS.load(name)", None),
    "viper.judges": ("metrics.JUDGES.load(name)", "roles"),
    "viper.learning_data": ("wiring.LEARNING_DATA.load(name)", "lvis"),
    "viper.metrics": ("metrics.metric(name)", "okvqa"),
    "viper.page_parts": ("trace_page.PAGE_PARTS.load(name)", None),
    "viper.profiles": ("files.read_profile(name)", "embedded"),
    "viper.routines": ("library.library_for(name)", "abstract"),
    "viper.strategies": ("strategies.strategy(name)", "program"),
}

LOOK_UP = """
import json, sys
import click
from viper import strategies
from viper.api import library
from viper.cli import cli as lazily
from viper.data import registry as data
from viper.errors import UsageError
from viper.evaluate import metrics
from viper.profiles import backends, files
from viper.strategies import exact
from viper.tuning import wiring
from viper.web import trace_page
from viper.web.demo import session

def fail(name):
    raise UsageError(f"unknown {name!r}; known: {lazily.list_commands(click.Context(lazily))}")

said = {}
for group, (code, names) in json.loads(sys.argv[1]).items():
    for name in names:
        try:
            said[f"{group} {name}"] = f"found {eval(code)}"
        except UsageError as error:
            said[f"{group} {name}"] = str(error)
print(json.dumps(said))
"""


def named(group: str, name: str) -> str:
    return f"detector.{name}" if group == "viper.backends" else name


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What looking up three names in every group says beside two packages that share a name."""
    site = tmp_path_factory.mktemp("site")
    for package in ("one", "two"):
        (site / f"clash_{package}.py").write_text("def part():\n    return 1\n")
        about = site / f"clash_{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: clash-{package}\n")
        lines = []
        for group, (_, shipped) in GROUPS.items():
            lines += [f"[{group}]", f"{named(group, 'twin')} = clash_{package}:part"]
            if shipped and package == "one":
                lines.append(f"{shipped} = clash_one:part")
        (about / "entry_points.txt").write_text("\n".join(lines))
    asked = {
        group: (code, [named(group, "twin"), named(group, "unknown"), *filter(None, [shipped])])
        for group, (code, shipped) in GROUPS.items()
    }
    run = subprocess.run(
        [sys.executable, "-c", LOOK_UP, json.dumps(asked)],
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{Path(__file__).parents[1]}"},
        capture_output=True,
        text=True,
        check=True,
    )
    answers: dict[str, str] = json.loads(run.stdout)
    return answers


@pytest.mark.parametrize("group", GROUPS)
def test_two_packages_with_one_name_are_one_line_that_names_both(
    said: dict[str, str], group: str
) -> None:
    message = said[f"{group} {named(group, 'twin')}"]
    assert "clash_two:part (clash-two)" in message and "clash_one:part (clash-one)" in message
    assert "\n" not in message and "uninstall one of the packages" in message


@pytest.mark.parametrize("group", [group for group, (_, shipped) in GROUPS.items() if shipped])
def test_a_package_cannot_replace_a_shipped_part(said: dict[str, str], group: str) -> None:
    message = said[f"{group} {GROUPS[group][1]}"]
    assert "of clash_one:part (clash-one) is taken by viper" in message


@pytest.mark.parametrize("group", GROUPS)
def test_listing_known_names_for_an_unknown_one_reports_the_clash(
    said: dict[str, str], group: str
) -> None:
    assert "is taken by" in said[f"{group} {named(group, 'unknown')}"]


def test_an_unknown_name_lists_the_known_ones_and_a_near_one() -> None:
    with pytest.raises(UnknownNameError, match=r"'okvga'; known: .*okvqa.*; did you mean okvqa\?"):
        metric("okvga")


def test_parts_are_offered_within_a_block_only() -> None:
    with offered("viper.metrics", {"mine": "viper.evaluate.metrics.knowledge:OKVQA"}):
        assert metric("mine").name == "okvqa"
    assert "mine" not in METRICS.names()


def test_a_clash_matters_only_to_its_own_name() -> None:
    with offered("viper.metrics", {"gqa": "viper.evaluate.metrics.knowledge:OKVQA"}):
        assert metric("okvqa").name == "okvqa"
        for use in (METRICS.names, lambda: metric("gqa")):
            with pytest.raises(UsageError, match="'gqa' of viper.evaluate.* is taken by viper"):
                use()
