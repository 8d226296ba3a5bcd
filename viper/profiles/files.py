"""Finding, reading and changing profile files, and the folder of the user's own ones.

A profile is TOML. It may extend another one and state the differences alone. Every mistake raises a
:class:`~viper.errors.ProfileError` that names file, line and key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import platformdirs
import tomlkit

from viper.api.sets import split_api
from viper.embedded import EMBEDDED
from viper.errors import ProfileError, UnknownNameError, UsageError
from viper.plugins import Registry, module_path
from viper.profiles.document import WRITER, Hardware, ProfileDocument, document_of, language_models
from viper.record import RecordError, read_toml, record_from_toml, toml_line
from viper.schema import to_json
from viper.strategies import model_roles
from viper.strategies.confidence import Confidence
from viper.strategies.settings import all_settings
from viper.tools.settings import ThresholdSchedule

# The profile of the embedded models lies beside them.
SHIPPED = (Path(__file__).parent, EMBEDDED)

# Name that stands for the default profile; see :func:`default_profile`.
AUTO = "auto"


def state_dir(chosen: Path | None = None) -> Path:
    """Return the folder of pools, caches and the user's own profiles.

    It is the chosen folder, else ``VIPER_HOME``, else the platform's folder for data.
    """
    return chosen or Path(os.environ.get("VIPER_HOME") or platformdirs.user_data_dir("viper"))


@dataclass(frozen=True)
class Config:
    """The file ``config.toml`` in the state folder, which ``viper setup`` writes.

    Attributes:
        profile: profile of commands that name none.
    """

    profile: str = "embedded"


def config_file(state: Path | None = None) -> Path:
    """Return the path of the configuration; see :func:`state_dir`."""
    return state_dir(state) / "config.toml"


def default_profile(state: Path | None = None) -> str:
    """Return the profile of commands that name none: ``VIPER_PROFILE``, else that of
    ``config.toml``, else ``embedded``.

    Raises:
        UsageError: ``config.toml`` is broken.
    """
    path = config_file(state)
    chosen = os.environ.get("VIPER_PROFILE", "")
    if chosen and chosen != AUTO:
        return chosen
    return (record_from_toml(Config, path) if path.is_file() else Config()).profile


def shipped_profiles() -> dict[str, Path]:
    """Return the profiles of the package by name, in alphabetical order."""
    files = (path for folder in SHIPPED for path in folder.glob("*.toml"))
    return {path.stem: path for path in sorted(files, key=lambda path: path.name)}


# An installed package names the module beside which the file ``NAME.toml`` of a profile stands.
PROFILES = Registry(
    "viper.profiles",
    "profile",
    {name: f"viper.{path.parent.name}" for name, path in shipped_profiles().items()},
)


def known_profiles(state: Path | None = None) -> dict[str, Path]:
    """Return the shipped, the installed and the user's own profiles by name.

    The user's take precedence.

    Raises:
        UsageError: two packages offer one of the names.
    """
    offered = {name: _offered_file(name) for name in PROFILES.names()}
    return {name: path for name, path in offered.items() if path} | _own_profiles(state)


def _own_profiles(state: Path | None) -> dict[str, Path]:
    folder = state_dir(state) / "profiles"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def _offered_file(name: str) -> Path | None:
    """Return the file of a shipped profile or of one of an installed package."""
    point = PROFILES.find(name)
    return None if point is None else module_path(point).with_name(f"{name}.toml")


def proposed_profiles() -> list[tuple[Hardware, ProfileDocument]]:
    """Return the shipped profiles that ``viper setup`` may propose, the least demanding first."""
    documents = [_read(path, None)[0] for path in shipped_profiles().values()]
    pairs = [(each.hardware, each) for each in documents if each.hardware]
    proposed = [pair for pair in pairs if pair[0].proposed]
    return sorted(proposed, key=lambda pair: (pair[0].gpu_gib, pair[0].ram_gib))


def read_profile(name_or_path: str, state: Path | None = None) -> ProfileDocument:
    """Read the profile of that name, or in that ``.toml`` file; ``auto`` is the default profile.

    Args:
        state: folder with the user's own profiles; see :func:`state_dir`.

    Raises:
        UnknownNameError: there is no such profile; lists the known ones.
        ProfileError: the file is missing, does not parse, or holds a wrong key or value.
    """
    if name_or_path == AUTO:
        name_or_path = default_profile(state)
    if name_or_path.endswith(".toml"):
        return _read(Path(name_or_path), state)[0]
    path = _own_profiles(state).get(name_or_path) or _offered_file(name_or_path)
    if path is None:
        raise UnknownNameError("profile", name_or_path, known_profiles(state))
    return _read(path, state)[0]


def _read(
    path: Path, state: Path | None, below: tuple[Path, ...] = ()
) -> tuple[ProfileDocument, dict[str, Any]]:
    """Return a profile and its values, those of the profiles that it extends included.

    Args:
        below: the profiles that extend this one.
    """
    if not path.exists():
        raise ProfileError(f"{path}: no such profile file")
    try:
        text, values = read_toml(path)
    except UsageError as error:
        raise ProfileError(str(error)) from None
    try:
        notes: tuple[str, ...] = ()
        if "extends" in values:
            name = values["extends"]
            if not isinstance(name, str):
                raise RecordError(["extends"], f"expected a profile's name or path; got {name!r}")
            extended = _own_profiles(state).get(name)
            if name.endswith(".toml"):
                extended = path.parent / Path(name).expanduser()
            elif extended is None or extended == path:
                # a user's profile may extend the shipped one of its name
                extended = _offered_file(name)
            if extended is None:
                problem = str(UnknownNameError("profile", name, known_profiles(state)))
                raise RecordError(["extends"], problem)
            if extended.resolve() in (*below, path.resolve()):
                raise RecordError(["extends"], f"{extended} extends this profile itself")
            base, inherited = _read(extended, state, (*below, path.resolve()))
            notes = base.notes
            write_whole_paths(inherited, extended.parent)
            for own in ("name", "description", "extends"):
                inherited.pop(own, None)
            changes, values = values, merge_tables(inherited, values)
            decisive = {*language_models(), "roles", "sensitivities"}
            if changes.keys() & decisive or set(changes.get("tools", {})) - _OF_MEMORY:
                told = _inherited_from_other_models(base, changes, values)
                notes += told if path not in shipped_profiles().values() else ()
        document = document_of(path, values)
        if document.confidence:
            notes = tuple(each for each in notes if not each.startswith(NO_CONFIDENCE))
        return replace(document, notes=notes), values
    except RecordError as error:
        raise ProfileError(f"{path}:{toml_line(text, error.keys)}: {error}") from None


NO_CONFIDENCE = "answers have no confidence"

# Keys of [tools] that change no answer.
_OF_MEMORY = frozenset({"cache_entries", "cache_mb", "batch"})


def _inherited_from_other_models(
    base: ProfileDocument, own: Mapping[str, Any], values: dict[str, Any]
) -> tuple[str, ...]:
    """Drop the calibration that a base profile made with its models, and say what else it made.

    Args:
        own: values of the profile that changes a model.
        values: those values with the inherited ones; changed in place.
    """
    notes = []
    if base.confidence:
        values.pop("confidence", None)
        if own.get("confidence"):
            values["confidence"] = own["confidence"]
        elif "confidence" not in own:
            notes.append(
                f"{NO_CONFIDENCE}: that of {base.name} was calibrated with other "
                "models or thresholds; viper learn confidence SET calibrates this profile"
            )
    kept = [f"[{role}]" for role in model_roles() if role in base.models and role not in own]
    if kept and WRITER in own:
        notes.append(
            f"{', '.join(kept)} of {base.name} still act in their strategies, not the new [llm]; "
            f"{kept[0][1:-1]} = false gives a role to it"
        )
    return tuple(notes)


def merge_tables(
    base: Mapping[str, Any], changes: Mapping[str, Any], within: str = ""
) -> dict[str, Any]:
    """Return the values of a profile with the changes of another one that extends it.

    Tables merge key by key, but a model's table replaces the other one as a whole, because options
    of one backend mean nothing to another. The value false removes a table, or any other value that
    is no truth value.
    """
    merged = dict(base)
    for key, value in changes.items():
        is_model = within == "roles" or key in language_models()
        inherited = base.get(key)
        if value is False and key in base and not isinstance(inherited, bool):
            del merged[key]
        elif isinstance(inherited, Mapping) and isinstance(value, Mapping) and not is_model:
            merged[key] = merge_tables(inherited, value, key)
        else:
            merged[key] = value
    return merged


def whole_path(path: str, base: Path) -> str:
    """Return a path relative to a folder as an absolute path."""
    return str((base / Path(path).expanduser()).resolve())


def whole_api(api: str, base: Path) -> str:
    """Return the name of an API with absolute paths."""
    return "+".join(
        whole_path(part, base) if part.endswith(".py") else part for part in split_api(api)
    )


def write_whole_paths(values: Any, base: Path) -> None:
    """Replace the paths in a profile's values that are relative to its folder.

    :class:`viper.profiles.wiring.Profile` resolves the same ones.
    """
    domain = values.get("domain", {})
    for each in (domain, *domain.get("roles", {}).values()):
        for name in ("words", "look"):
            if isinstance(each.get(name), str) and not each[name].startswith("embedded:"):
                each[name] = whole_path(each[name], base)
    run = values.get("run", {})
    bank, api = run.get("bank"), run.get("api")
    if isinstance(bank, str) and not bank.startswith("embedded:"):
        run["bank"] = str((base / bank).resolve())
    if isinstance(api, str) and ".py" in api:
        run["api"] = whole_api(api, base)
    for setting in all_settings().values():
        if setting.declaration.is_path:
            for table in (run, run.get(setting.strategy, {})):
                _write_whole(table, setting.name, base)
    if str(values.get("extends", "")).endswith(".toml"):
        values["extends"] = whole_path(values["extends"], base)
    writers = (values.get(name) for name in language_models())
    for choice in (*writers, *values.get("roles", {}).values()):
        _write_whole(choice or {}, "backend", base)
        _write_whole(choice or {}, "model", base)
        _write_whole((choice or {}).get("options", {}), "adapter", base)


def _write_whole(table: Any, key: str, base: Path) -> None:
    """Replace the path under a key if it is relative to the profile's folder."""
    if str(table.get(key, "")).startswith(("./", "../")):
        table[key] = str((base / table[key]).resolve())


def with_values(
    path: Path,
    name: str,
    run: Mapping[str, Any] | None = None,
    sensitivities: Mapping[str, ThresholdSchedule] | None = None,
    confidence: Mapping[str, Confidence] | None = None,
) -> str:
    """Return the text of the profile in ``path`` with another name and these values.

    Paths relative to the profile's folder become absolute, because the new profile may be in
    another folder.

    Args:
        run: keys of ``[run]`` with their new values, written without change.
        sensitivities: new values of threshold schedules by name. A calibration that was made with
            others is removed.
        confidence: new calibrations by name; others stay.
    """
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    document["name"] = name
    write_whole_paths(document, path.parent)
    if run:
        document.setdefault("run", tomlkit.table()).update(run)
    if sensitivities:
        document.pop("confidence", None)
    for key, value in (sensitivities or {}).items():
        thresholds = document.setdefault("sensitivities", tomlkit.table())
        table = thresholds.setdefault(key, tomlkit.inline_table())
        for part in ("start", "step", "floor", "fixed"):
            number = getattr(value, part)
            if number is not None and table.get(part) != number:  # the rest of the text stays
                table[part] = number
    for key, calibration in (confidence or {}).items():
        calibrations = document.setdefault("confidence", tomlkit.table(is_super_table=True))
        calibrations[key] = _without_empty(to_json(calibration))
    return tomlkit.dumps(document)


def _without_empty(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without the empty tables in it, which would be lines that say nothing."""
    return {
        key: _without_empty(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
        if value != {}
    }
