"""What a profile holds: the models by role, and settings. Its tables are checked here.

`document_of` checks the names of all tables and keys, then reads each table into its record: a
`BackendChoice` for each model, and settings of tools, runs and limits. A wrong key raises with its
place, from which the reader of the file finds the line.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from viper.api.sets import split_api
from viper.errors import UnknownNameError, UsageError
from viper.models.loading import LoadOptions
from viper.record import RecordError, record_from_json
from viper.sandbox import Limits
from viper.schema import PromptStyle
from viper.strategies import model_roles, strategy_names
from viper.strategies.confidence import CALIBRATIONS, Confidence
from viper.strategies.settings import (
    RunSettings,
    all_settings,
    declared_settings,
    strategy_settings,
)
from viper.tools.models import ROLES
from viper.tools.settings import THRESHOLD_NAMES, ThresholdSchedule, ToolSettings

# Roles of the language models that every strategy may use: program writer and critic.
WRITER, CRITIC = "llm", "critic"


# The language model that roles with the backend ``vlm`` ask; the writer if there is none.
EYES = "vlm"


def language_models() -> tuple[str, ...]:
    """Return the tables of a profile that name a language model, the program writer first."""
    planner, *others = model_roles()
    return (WRITER, planner, CRITIC, *others, EYES)


@dataclass(frozen=True)
class BackendChoice:
    """The backend of a role.

    Attributes:
        backend: name of the backend, see :mod:`viper.profiles.backends`.
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


@dataclass(frozen=True)
class DomainFiles:
    """Table ``[domain]``; see :class:`viper.models.domain.Domain`.

    Attributes:
        words, look: files, ``embedded:NAME`` or relative to the profile; None for no check.
        exact_inputs: name under which an installed package offers exact inputs for verification.
        roles: what the language models of single roles know instead.
    """

    about: str
    words: str | None = None
    look: str | None = None
    instead: str = ""
    withhold: bool = False
    withhold_words: bool = False
    exact_inputs: str = ""
    roles: Mapping[str, DomainFiles] = field(default_factory=dict)


@dataclass(frozen=True)
class WatchDefaults:
    """Table ``[watch]``: how ``viper watch`` asks these models, unless its options say otherwise.

    Attributes:
        hold, gap: seconds, as the options, for a look each second or more; a gap of None is as
            long as ``hold``.
        find_check: that of its tools, in place of the one in ``[tools]``.
        thresholds: theirs, in place of those in ``[sensitivities]``.
        confirm: a change counts if the answer is the same with these thresholds; moments that a
            program returns need none.

    Raises:
        UsageError: a time is negative.
        UnknownNameError: an unknown check.
    """

    hold: float = 0.0
    gap: float | None = None
    find_check: str | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    confirm: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in (("hold", self.hold), ("gap", self.gap or 0.0)):
            if not 0 <= value < math.inf:
                raise UsageError(f"{name} is {value}; expected 0 or more seconds")
        if self.find_check is not None:
            ToolSettings(find_check=self.find_check)


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
    threads: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.max_memory_gb < math.inf:
            raise UsageError(
                f"max_memory_gb is {self.max_memory_gb}; expected 0 (no bound) or more"
            )
        if self.threads < 0:
            raise UsageError(f"threads is {self.threads}; expected 0 (one for each core) or more")


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
        threads: threads that numerical libraries compute with, if the environment does not say; 0
            is one for each core. See :mod:`viper.threads`.
        hardware: the machine that the profile promises to fit, or None.
        domain: the words and pictures that the models know; None if they know everything.
        confidence: calibrations of answers by name; see :mod:`viper.strategies.confidence`.
        notes: what it inherits, or not, although it was made for other models; for people.
    """

    models: Mapping[str, BackendChoice]
    roles: Mapping[str, BackendChoice]
    tools: ToolSettings
    run: RunSettings
    limits: Limits
    load: Mapping[str, Any] = field(default_factory=dict)
    hardware: Hardware | None = None
    domain: DomainFiles | None = None
    watch: WatchDefaults = field(default_factory=WatchDefaults)
    confidence: Mapping[str, Confidence] = field(default_factory=dict)
    path: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def llm(self) -> BackendChoice:
        """Return the program writer."""
        return self.models[WRITER]

    @property
    def base(self) -> Path | None:
        """Return the folder of relative paths, or None for the working folder."""
        return self.path.parent if self.path else None


_TABLES = (
    "roles",
    "load",
    "sensitivities",
    "tools",
    "run",
    "limits",
    "hardware",
    "domain",
    "watch",
    "confidence",
)


def document_of(path: Path, values: Mapping[str, Any]) -> ProfileDocument:
    """Return the profile with these values.

    Args:
        path: file of the profile, whose name is the default name.

    Raises:
        RecordError: a key or a value is wrong, or one is missing.
    """
    header, resources = _keys(_Header), _keys(_Resources)
    _table(values, (), (*header, *language_models(), *_TABLES))
    tables = {name: _table(values.get(name, {}), (name,)) for name in _TABLES}
    if WRITER not in values:
        raise RecordError([WRITER], "missing; a profile needs a language model")
    roles, thresholds, run = tables["roles"], tables["sensitivities"], tables["run"]
    _table(roles, ("roles",), ROLES)
    routines, api = [], run.get("api")
    for part in split_api(api) if isinstance(api, str) else ():
        file = path.parent / Path(part).expanduser()
        # A missing file is reported when it is used.
        if file.suffix == ".py" and file.is_file():
            routines.append(file.read_text(encoding="utf-8", errors="replace"))
    # Routines may use thresholds of their own.
    quoted = {name: (f'"{name}"', f"'{name}'") for name in thresholds}
    own = [name for name in quoted if any(q in text for text in routines for q in quoted[name])]
    _table(thresholds, ("sensitivities",), (*THRESHOLD_NAMES, *own))
    _table(run, ("run",), (*all_settings(), *strategy_settings(), *resources))
    if (name := run.get("strategy", "program")) not in strategy_names():
        raise RecordError(
            ("run", "strategy"), str(UnknownNameError("strategy", str(name), strategy_names()))
        )
    _table(tables["confidence"], ("confidence",), (*CALIBRATIONS, *strategy_names()))
    _record(LoadOptions, tables["load"], "load")
    resource_values = {name: run.pop(name) for name in resources if name in run}
    # Settings of a strategy are in its own table of [run] or among the others.
    of_strategies: dict[str, Any] = {}
    for strategy, kind in strategy_settings().items():
        nested = run.pop(strategy, {})
        names = [setting.name for setting in declared_settings(kind)]
        flat = {name: run.pop(name) for name in names if name in run}
        nested_settings = _record(kind, nested, "run", strategy)
        for name in sorted(flat.keys() & nested.keys()):
            raise RecordError(("run", strategy, name), "stands in [run] as well; keep one of them")
        settings = _record(kind, flat, "run")
        settings = replace(settings, **{name: getattr(nested_settings, name) for name in nested})
        if settings != kind():
            of_strategies[strategy] = settings
    tools = _record(
        ToolSettings,
        tables["tools"],
        "tools",
        sensitivities={
            name: _record(ThresholdSchedule, value, "sensitivities", name)
            for name, value in thresholds.items()
        },
    )
    watch = _record(WatchDefaults, tables["watch"], "watch")
    for name in ("thresholds", "confirm"):
        try:
            tools.with_thresholds(getattr(watch, name))
        except UsageError as error:
            raise RecordError(("watch", name), str(error)) from None
    header_values = {name: values[name] for name in header if name in values}
    return ProfileDocument(
        **vars(_record(_Header, {"name": path.stem, **header_values})),
        **vars(_record(_Resources, resource_values, "run")),
        models={
            name: _choice(path, values[name], name, **({"style": "chat"} if name == WRITER else {}))
            for name in language_models()
            if name in values
        },
        roles={
            role: _choice(path, value, "roles", role, cache=False, style="chat", sees=False)
            for role, value in roles.items()
        },
        tools=tools,
        run=_record(RunSettings, run, "run", own=of_strategies),
        limits=_record(Limits, tables["limits"], "limits"),
        load=tables["load"],
        hardware=_record(Hardware, tables["hardware"], "hardware") if tables["hardware"] else None,
        domain=_record(DomainFiles, tables["domain"], "domain") if tables["domain"] else None,
        watch=watch,
        confidence={
            name: _record(Confidence, value, "confidence", name)
            for name, value in tables["confidence"].items()
        },
        path=path,
    )


def _choice(path: Path, value: Any, *place: str, **fixed: Any) -> BackendChoice:
    """Return a model's table. A backend in a file has the whole path of that file."""
    choice: BackendChoice = _record(BackendChoice, value, *place, **fixed)
    if not choice.backend.startswith(("./", "../")):
        return choice
    return replace(choice, backend=str((path.parent / choice.backend).resolve()))


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
