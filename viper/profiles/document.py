"""Reading and checking of profile files, which assign models to roles and hold settings.

A profile is TOML. It may extend another one and state the differences alone. Every mistake raises a
:class:`~viper.errors.ProfileError` that names file, line and key.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import platformdirs

from viper.api.library import split_api
from viper.errors import ProfileError, UnknownNameError, UsageError
from viper.models.loading import LoadOptions
from viper.record import RecordError, read_toml, record_from_json, record_from_toml, toml_line
from viper.sandbox import Limits
from viper.schema import PromptStyle
from viper.strategies import model_roles
from viper.strategies.settings import (
    RunSettings,
    all_settings,
    declared_settings,
    strategy_settings,
)
from viper.tools.models import ROLES
from viper.tools.settings import THRESHOLD_NAMES, ThresholdSchedule, ToolSettings

SHIPPED = Path(__file__).parent

AUTO = "auto"
"""Name that stands for the default profile; see :func:`default_profile`."""

WRITER, CRITIC = "llm", "critic"
"""Roles of the language models that every strategy may use: program writer and critic."""


EYES = "vlm"
"""The language model that roles with the backend ``vlm`` ask; the writer if there is none."""


def language_models() -> tuple[str, ...]:
    """Return the tables of a profile that name a language model, the program writer first."""
    planner, *others = model_roles()
    return (WRITER, planner, CRITIC, *others, EYES)


@dataclass(frozen=True)
class BackendChoice:
    """The backend of a role.

    Attributes:
        backend: name of the backend.
        model: model to load: ``embedded:NAME``, a folder or a hub id; None if it needs none.
        options: options of the backend.
        cache: whether replies of a language model are cached on disk.
        style: style of the prompts for a language model other than the program writer, one of
            :data:`viper.schema.PROMPT_STYLES`.
        sees: whether the prompts of a language model contain the pictures of the query.
    """

    backend: str
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    cache: bool = False
    style: PromptStyle = "chat"
    sees: bool = False


@dataclass(frozen=True)
class Hardware:
    """What a profile promises to fit: 90 % of this memory holds everything at once.

    Attributes:
        gpu_gib: memory of the GPU; 0 if the profile needs none.
        ram_gib: memory of the machine; 0 if nothing is promised.
        proposed: whether ``viper setup`` may propose the profile.
    """

    gpu_gib: float = 0.0
    ram_gib: float = 0.0
    proposed: bool = False

    def __post_init__(self) -> None:
        for name in ("gpu_gib", "ram_gib"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name} is {getattr(self, name)}; expected 0 or more GiB")

    @property
    def memory_gib(self) -> float:
        """Return the memory that holds the models: the GPU's, else the machine's."""
        return self.gpu_gib or self.ram_gib


@dataclass(frozen=True, kw_only=True)
class _Header:
    """Keys of a profile outside its tables."""

    name: str
    description: str = ""
    facts: str = ""
    extends: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Resources:
    """Keys of ``[run]`` that are not settings of a single run."""

    bank: str | None = None
    preload: bool = False
    max_memory_gb: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.max_memory_gb < math.inf:
            raise UsageError(
                f"max_memory_gb is {self.max_memory_gb}; expected 0 (no bound) or more"
            )


@dataclass(frozen=True, kw_only=True)
class ProfileDocument(_Header, _Resources):
    """A checked profile; nothing is loaded yet.

    Attributes:
        facts: facts about the models that a program writer should know: the words of the detector,
            the form of captions. Chat prompts show them.
        extends: profile whose other values hold, a name or a path; they are in this record.
        models: language models by role. ``llm`` writes programs, ``critic`` attributes errors, and
            the others play a role of one strategy instead of ``llm``.
        roles: vision models and other tools by role.
        bank: bank of in-context examples, ``embedded:NAME`` or a path, or None.
        preload: load the vision models in advance, for profiles with small models.
        load: options of :class:`viper.models.loading.LoadOptions` for every model that is loaded
            locally; a role's own options take precedence.
        max_memory_gb: most memory in GiB for the weights of all models together; 0 sets no limit.
        hardware: the machine that the profile promises to fit, or None.
    """

    models: Mapping[str, BackendChoice]
    roles: Mapping[str, BackendChoice]
    tools: ToolSettings
    run: RunSettings
    limits: Limits
    load: Mapping[str, Any] = field(default_factory=dict)
    hardware: Hardware | None = None
    path: Path | None = None

    @property
    def llm(self) -> BackendChoice:
        """Return the program writer."""
        return self.models[WRITER]

    @property
    def base(self) -> Path | None:
        """Return the folder of relative paths, or None for the working folder."""
        return self.path.parent if self.path else None


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


def known_profiles(state: Path | None = None) -> dict[str, Path]:
    """Return the shipped and the user's own profiles by name. The user's take precedence."""
    own = state_dir(state) / "profiles"
    profiles = {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}
    profiles.update({path.stem: path for path in sorted(own.glob("*.toml"))})
    return profiles


def proposed_profiles() -> list[tuple[Hardware, ProfileDocument]]:
    """Return the shipped profiles that ``viper setup`` may propose, the least demanding first."""
    documents = [_read(path, None)[0] for path in sorted(SHIPPED.glob("*.toml"))]
    proposed = [(each.hardware, each) for each in documents if each.hardware]
    proposed = [(hardware, each) for hardware, each in proposed if hardware.proposed]
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
    profiles = known_profiles(state)
    if name_or_path not in profiles:
        raise UnknownNameError("profile", name_or_path, profiles)
    return _read(profiles[name_or_path], state)[0]


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
        if "extends" in values:
            extended = _extended(values["extends"], path, state)
            if extended.resolve() in (*below, path.resolve()):
                raise RecordError(["extends"], f"{extended} extends this profile itself")
            inherited = _read(extended, state, (*below, path.resolve()))[1]
            write_whole_paths(inherited, extended.parent)
            for own in ("name", "description", "extends"):
                inherited.pop(own, None)
            values = merge_tables(inherited, values)
        return _document(path, values), values
    except RecordError as error:
        raise ProfileError(f"{path}:{toml_line(text, error.keys)}: {error}") from None


def _extended(name: Any, path: Path, state: Path | None) -> Path:
    """Return the file of the profile that the one in ``path`` extends."""
    if not isinstance(name, str):
        raise RecordError(["extends"], f"expected a profile's name or path; got {name!r}")
    if name.endswith(".toml"):
        return path.parent / Path(name).expanduser()
    profiles = known_profiles(state)
    if profiles.get(name) == path:  # a user's profile may extend the shipped one of its name
        profiles = {each.stem: each for each in SHIPPED.glob("*.toml")}
    if name not in profiles:
        raise RecordError(["extends"], str(UnknownNameError("profile", name, profiles)))
    return profiles[name]


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
        _write_whole(choice or {}, "model", base)
        _write_whole((choice or {}).get("options", {}), "adapter", base)


def _write_whole(table: Any, key: str, base: Path) -> None:
    """Replace the path under a key if it is relative to the profile's folder."""
    if str(table.get(key, "")).startswith(("./", "../")):
        table[key] = str((base / table[key]).resolve())


_TABLES = ("roles", "load", "sensitivities", "tools", "run", "limits", "hardware")


def _document(path: Path, values: Mapping[str, Any]) -> ProfileDocument:
    header, resources = _keys(_Header), _keys(_Resources)
    _table(values, (), (*header, *language_models(), *_TABLES))
    tables = {name: _table(values.get(name, {}), (name,)) for name in _TABLES}
    if WRITER not in values:
        raise RecordError([WRITER], "missing; a profile needs a language model")
    roles, thresholds, run = tables["roles"], tables["sensitivities"], tables["run"]
    _table(roles, ("roles",), ROLES)
    own = _names_in_routines(thresholds, run.get("api"), path.parent)
    _table(thresholds, ("sensitivities",), (*THRESHOLD_NAMES, *own))
    _table(run, ("run",), (*all_settings(), *strategy_settings(), *resources))
    _record(LoadOptions, tables["load"], "load")
    header_values = {name: values[name] for name in header if name in values}
    resource_values = {name: run.pop(name) for name in resources if name in run}
    return ProfileDocument(
        **vars(_record(_Header, {"name": path.stem, **header_values})),
        **vars(_record(_Resources, resource_values, "run")),
        models={
            name: _record(
                BackendChoice, values[name], name, **({"style": "chat"} if name == WRITER else {})
            )
            for name in language_models()
            if name in values
        },
        roles={
            role: _record(
                BackendChoice, value, "roles", role, cache=False, style="chat", sees=False
            )
            for role, value in roles.items()
        },
        tools=_record(
            ToolSettings,
            tables["tools"],
            "tools",
            sensitivities={
                name: _record(ThresholdSchedule, value, "sensitivities", name)
                for name, value in thresholds.items()
            },
        ),
        run=_run(run),
        limits=_record(Limits, tables["limits"], "limits"),
        load=tables["load"],
        hardware=_record(Hardware, tables["hardware"], "hardware") if tables["hardware"] else None,
        path=path,
    )


def _run(table: dict[str, Any]) -> RunSettings:
    """Return the settings. Those of a strategy are in its own table or among the others."""
    own: dict[str, Any] = {}
    for strategy, kind in strategy_settings().items():
        nested = table.pop(strategy, {})
        names = [setting.name for setting in declared_settings(kind)]
        flat = {name: table.pop(name) for name in names if name in table}
        nested_settings = _record(kind, nested, "run", strategy)
        for name in sorted(flat.keys() & nested.keys()):
            raise RecordError(("run", strategy, name), "stands in [run] as well; keep one of them")
        settings = _record(kind, flat, "run")
        settings = replace(settings, **{name: getattr(nested_settings, name) for name in nested})
        if settings != kind():
            own[strategy] = settings
    return _record(RunSettings, table, "run", own=own)


def _names_in_routines(names: Iterable[str], api: Any, base: Path) -> Iterator[str]:
    """Yield the names of thresholds that the files of routines of an API use."""
    texts = []
    for part in split_api(api) if isinstance(api, str) else ():
        path = base / Path(part).expanduser()
        # A missing file is reported when it is used.
        if path.suffix == ".py" and path.is_file():
            texts.append(path.read_text(encoding="utf-8", errors="replace"))
    for name in names:
        if any(f'"{name}"' in text or f"'{name}'" in text for text in texts):
            yield name


def _record(kind: Any, value: Any, *place: str, **fixed: Any) -> Any:
    """Return a table as a record. The table must not have the fields in ``fixed`` as keys.

    Raises:
        RecordError: a key is wrong, or the table as a whole.
    """
    table = _table(value, place, [name for name in _keys(kind) if name not in fixed])
    entries = {name: _tuples(entry) for name, entry in table.items()}
    try:
        record = record_from_json(kind, table, strict=True)
        # pydantic turns 10 into 10.0, but fingerprints of stored runs distinguish them.
        same = {name: entry for name, entry in entries.items() if getattr(record, name) == entry}
        return replace(record, **same, **fixed)
    except RecordError as error:
        raise RecordError((*place, *error.keys), error.problem) from None
    except UsageError as error:
        for name, entry in entries.items():
            try:
                kind(**{name: entry}, **fixed)
            except TypeError:  # needs other keys as well
                continue
            except UsageError as wrong:
                raise RecordError((*place, name), str(wrong)) from None
        raise RecordError(place, str(error)) from None


def _table(value: Any, place: Iterable[str], known: Iterable[str] = ()) -> dict[str, Any]:
    """Return a copy of a table.

    Args:
        known: the allowed keys; if empty, all keys are allowed.

    Raises:
        RecordError: the value is not a table, or has an unknown key.
    """
    names = list(known)
    if not isinstance(value, dict):
        keys = f" with keys such as {', '.join(names[:3])}" if names else ""
        raise RecordError(place, f"expected a table{keys}; got {repr(value)[:60]}")
    for key in value if names else ():
        if key not in names:
            nearest = difflib.get_close_matches(key, names, 1, cutoff=0.0)[0]
            problem = f"unknown key; the nearest is {nearest}; known: {', '.join(names)}"
            raise RecordError((*place, key), problem)
    return dict(value)


def _keys(kind: Any) -> list[str]:
    return [declared.name for declared in fields(kind)]


def _tuples(value: Any) -> Any:
    """Return a list as a tuple, as records hold it; other values unchanged."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
