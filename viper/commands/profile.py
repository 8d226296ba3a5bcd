"""``viper setup profile``: profiles of models, thresholds and limits.

`list_profiles` and `show` only read profiles. `check` adds up what the inventory of the models, the
wiring and the memory of this machine find wrong. `new` copies a profile with its paths made
absolute.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import click

from viper.commands.options import PROFILE, OutPath, state_option
from viper.commands.setup import report_fit
from viper.commands.terminal import echo_json, echo_table
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError, ViperError
from viper.profiles import Profile, known_profiles, load_profile, read_profile
from viper.profiles.files import state_dir, with_values
from viper.profiles.fit import Machine, promised
from viper.profiles.inventory import ModelState, inventory, problems_of, readiness
from viper.schema import to_json
from viper.storage.files import write_file


@click.group()
def profile() -> None:
    """List, check, show or create profiles: the model of each role, thresholds and limits.

    A profile is a TOML file. --profile takes a name from the list or a path.
    """


@profile.command("list")
@state_option
def list_profiles(state: Path | None) -> None:
    """List the shipped profiles and your own, and show which can run here."""
    rows = []
    for name in known_profiles(state):
        try:
            loaded = load_profile(name, state=state)
            rows.append((name, readiness(loaded)[0], loaded.document.description))
        except ViperError as error:
            rows.append((name, "cannot run", str(error)))
    echo_table(("name", "state", "description"), rows)


@profile.command()
@click.argument("name", type=PROFILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@state_option
def show(name: str, as_json: bool, state: Path | None) -> None:
    """Show the models, thresholds and settings of a profile (a name or a FILE.toml)."""
    loaded = load_profile(name, state=state)
    document = loaded.document
    states = list(inventory(loaded))
    settings = dataclasses.asdict(document.run)
    if as_json:
        record = {
            "name": document.name,
            "description": document.description,
            "path": str(document.path),
            "models": to_json(states),
            "run": settings,
            "thresholds": to_json(document.tools.sensitivities),
        }
        echo_json(record)
        return
    click.echo(f"{document.name}: {document.description}\n{document.path}\n")
    _echo_models(states)
    click.echo("\nsettings")
    for key, value in settings.items():
        click.echo(f"  {key:18} {value}")
    click.echo("thresholds")
    for key, item in document.tools.sensitivities.items():
        fixed = "" if item.fixed is None else f"; {item.fixed:g} where nothing tunes it"
        click.echo(
            f"  {key:18} {item.start:g}, lowered by {item.step:g} down to {item.floor:g}{fixed}"
        )


@profile.command()
@click.argument("name", type=PROFILE)
@click.option(
    "--offline", is_flag=True, help="Report models that are not on this disk as problems."
)
@state_option
def check(name: str, offline: bool, state: Path | None) -> int:
    """Check a profile without loading weights; the exit code is 1 if it cannot run here."""
    loaded = load_profile(name, state=state)
    states = list(inventory(loaded, offline))
    _echo_models(states)
    problems = problems_of(loaded, states)
    promise = promised(loaded)
    if promise is not None:
        click.echo(f"promise  {promise.text}{'' if promise.holds else ', which is above 90 %'}")
    problems += report_fit(loaded, Machine.here())
    for problem in problems:
        click.echo(f"problem: {problem}")
    click.echo("cannot run here" if problems else "can run here")
    return EXIT_FAILED if problems else EXIT_OK


@profile.command()
@click.argument("name")
@click.option(
    "--from", "base", default="embedded", show_default=True, type=PROFILE, help="Profile to copy."
)
@click.option("--out", type=OutPath(), default=None,
              help="File to write. By default NAME.toml in the state folder.")  # fmt: skip
@state_option
def new(name: str, base: str, out: Path | None, state: Path | None) -> None:
    """Write a new profile NAME, a copy of another profile.

    Relative paths of the other profile become absolute. Without --out, the file goes into the
    state folder, where profiles are looked up by name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise UsageError(f"{name!r} cannot name a profile; use letters, digits, - and _")
    source = read_profile(base, state).path
    assert source is not None
    path = out or state_dir(state) / "profiles" / f"{name}.toml"
    if path.exists() or (out is None and name in known_profiles(state)):
        raise UsageError(f"{path if path.exists() else name}: exists already; nothing was written")
    write_file(path, with_values(source, name))
    click.echo(path)


def _echo_models(states: list[ModelState]) -> None:
    rows = []
    for state in states:
        options = ", ".join(f"{key}={value}" for key, value in (state.options or {}).items())
        rows.append((state.role, state.backend, state.model or "-", _place_of(state), options))
    echo_table(("role", "backend", "model", "weights", "options"), rows)


def echo_weights(profile: Profile, offline: bool) -> list[ModelState]:
    """Print where the weights of a profile's models are, and return the state of each model."""
    states = list(inventory(profile, offline))
    echo_table(
        ("role", "backend", "model", "weights"),
        [(s.role, s.backend, s.model or "-", s.problem or _place_of(s)) for s in states],
    )
    return states


def _place_of(state: ModelState) -> str:
    """Return the place and the size of a model's weights as text."""
    size = f", {state.size}" if state.size else ""
    return {
        "folder": "on this disk",
        "cache": "in the hub's cache",
        "partial": "partly in the hub's cache",
        "hub": "to be downloaded",
        "endpoint": "behind an endpoint",
        "shared": f"shared with {state.shares or 'other roles'}",
        "own": "known to its backend",
        "nowhere": "not there",
    }[state.place] + size
