"""Reading and checking a profile file: which model plays which role, with which settings.

A profile is TOML. Every mistake is one :class:`~viper.errors.ProfileError` that
names file, line and key.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from viper.api.library import split_api
from viper.errors import ProfileError, UnknownNameError, UsageError
from viper.models.loading import LoadOptions
from viper.prompting.builder import STYLES
from viper.sandbox import Limits
from viper.strategies import model_roles
from viper.strategies.settings import RunSettings, all_settings, declared, strategy_settings
from viper.tools.models import ROLES
from viper.tools.settings import SENSITIVITIES, Sensitivity, ToolSettings

SHIPPED = Path(__file__).parent

WRITER, CRITIC = "llm", "critic"
"""The language models that every strategy may use: one writes programs, one says what is wrong."""


def language_models() -> tuple[str, ...]:
    """Return the tables of a profile that name a language model, the program writer's first."""
    planner, *others = model_roles()
    return (WRITER, planner, CRITIC, *others)


@dataclass(frozen=True)
class BackendChoice:
    """A backend by name, what it loads (``embedded:NAME``, a folder, a hub id), its options.

    ``cache`` keeps what a language model answered on disk; ``style`` is that of the prompts of a
    language model beside the program writer, one of :data:`viper.prompting.builder.STYLES`.
    """

    backend: str
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    cache: bool = False
    style: str = "chat"


@dataclass(frozen=True)
class ProfileDocument:
    """A checked profile; nothing is loaded yet.

    Attributes:
        models: the language models by role: ``llm`` writes programs, ``critic`` says what made an
            answer wrong, the others play a role of one strategy in place of ``llm``.
        bank: the bank of in-context examples, ``embedded:NAME`` or a path, or None.
        preload: load the vision models ahead, for profiles whose models are small.
        load: options of :class:`viper.models.loading.LoadOptions` for every model that is
            loaded here; a role's own options win.
        max_memory_gb: what the weights of the vision models may take together; 0: no bound.
    """

    name: str
    description: str
    models: Mapping[str, BackendChoice]
    roles: Mapping[str, BackendChoice]
    tools: ToolSettings
    run: RunSettings
    limits: Limits
    bank: str | None = None
    preload: bool = False
    load: Mapping[str, Any] = field(default_factory=dict)
    max_memory_gb: float = 0.0
    path: Path | None = None

    @property
    def llm(self) -> BackendChoice:
        """The program writer."""
        return self.models[WRITER]


def state_dir(chosen: Path | None = None) -> Path:
    """Where pools, caches and the user's own profiles live.

    The folder that was chosen, else ``VIPER_HOME``, else the platform's folder for data.
    """
    return chosen or Path(os.environ.get("VIPER_HOME") or platformdirs.user_data_dir("viper"))


def known_profiles(state: Path | None = None) -> dict[str, Path]:
    """Shipped profiles and the user's own, by name; the user's win."""
    own = state_dir(state) / "profiles"
    found = {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}
    found.update({path.stem: path for path in sorted(own.glob("*.toml"))})
    return found


def read_profile(name_or_path: str, state: Path | None = None) -> ProfileDocument:
    """The profile of that name, or in that ``.toml`` file.

    Args:
        state: where the user's own are looked for; see :func:`state_dir`.

    Raises:
        UnknownNameError: no such profile; lists the known ones.
        ProfileError: the file is missing, does not parse, or holds a wrong key or value.
    """
    if name_or_path.endswith(".toml"):
        return _parse(Path(name_or_path))
    profiles = known_profiles(state)
    if name_or_path not in profiles:
        raise UnknownNameError("profile", name_or_path, profiles)
    return _parse(profiles[name_or_path])


def _parse(path: Path) -> ProfileDocument:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ProfileError(f"{path}: no such profile file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: cannot be read as text ({error})") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{path}: not valid TOML: {error}") from None
    return _Reader(path, text).document(data)


class _Reader:
    """Turns parsed TOML into a document, blaming by line."""

    _OTHERS = ("name", "description", "roles", "load", "sensitivities", "tools", "run", "limits")

    def __init__(self, path: Path, text: str) -> None:
        self.path, self._lines = path, text.splitlines()

    def document(self, data: dict[str, Any]) -> ProfileDocument:
        self._only(data, (*self._OTHERS[:2], *language_models(), *self._OTHERS[2:]), "")
        run = dict(self._table(data, "run"))
        bank = run.pop("bank", None)
        if bank is not None and not isinstance(bank, str):
            self._fail("bank", "run", f"expected text, got {type(bank).__name__}")
        preload = run.pop("preload", False)
        if not isinstance(preload, bool):
            self._fail("preload", "run", f"expected true or false, got {preload!r}")
        max_memory_gb = run.pop("max_memory_gb", 0)
        if isinstance(max_memory_gb, bool) or not isinstance(max_memory_gb, int | float):
            self._fail("max_memory_gb", "run", f"expected a number, got {max_memory_gb!r}")
        if not 0 <= max_memory_gb < math.inf:
            self._fail(
                "max_memory_gb", "run", f"expected 0 (no bound) or more, got {max_memory_gb}"
            )
        if "llm" not in data:
            self._fail("llm", "", "missing; a profile needs a language model")
        tools = dict(self._table(data, "tools"))
        if "attribute_families" in tools:
            tools["attribute_families"] = self._families(tools["attribute_families"])
        return ProfileDocument(
            name=self._text(data, "name", self.path.stem),
            description=self._text(data, "description", ""),
            models={
                name: self._backend(data[name], name, "")
                for name in language_models()
                if name in data
            },
            roles=self._roles(self._table(data, "roles")),
            tools=self._record(
                ToolSettings, tools, "tools", sensitivities=self._sensitivities(data)
            ),
            run=self._run(run),
            limits=self._record(Limits, self._table(data, "limits"), "limits"),
            bank=bank,
            preload=preload,
            load=self._load(data),
            max_memory_gb=float(max_memory_gb),
            path=self.path,
        )

    def _run(self, table: dict[str, Any]) -> RunSettings:
        """The settings; those of a strategy stand in a table of its own or among the others."""
        self._only(table, (*all_settings(), *strategy_settings()), "run")
        own: dict[str, Any] = {}
        for strategy, kind in strategy_settings().items():
            names = {one.name for one in declared(kind)}
            flat = {name: table.pop(name) for name in names & table.keys()}
            values = self._table(table, strategy, "run")
            table.pop(strategy, None)
            twice = sorted(flat.keys() & values.keys())
            if twice:
                self._fail(twice[0], f"run.{strategy}", "stands in [run] as well; keep one of them")
            in_table = self._record(kind, values, f"run.{strategy}")
            fixed = {name: getattr(in_table, name) for name in values}
            settings = self._record(kind, flat, "run", **fixed)
            if settings != kind():
                own[strategy] = settings
        run: RunSettings = self._record(RunSettings, table, "run", own=own)
        return run

    def _roles(self, table: dict[str, Any]) -> dict[str, BackendChoice]:
        self._only(table, ROLES, "roles")
        return {role: self._backend(value, role, "roles") for role, value in table.items()}

    def _load(self, data: dict[str, Any]) -> dict[str, Any]:
        table = self._table(data, "load")
        self._record(LoadOptions, table, "load")
        return table

    def _backend(self, value: Any, key: str, section: str) -> BackendChoice:
        if not isinstance(value, dict) or not isinstance(value.get("backend"), str):
            self._fail(key, section, 'expected a table with a backend, as { backend = "owlv2", … }')
        keys = ["backend", "model", "options"]
        if not section:
            keys += ["cache"] if key == WRITER else ["cache", "style"]
        self._only(value, keys, key)
        style = value.get("style", "chat")
        if style not in STYLES:
            self._fail("style", key, f"expected one of {', '.join(STYLES)}; got {style!r}")
        model, options = value.get("model"), value.get("options", {})
        cache = value.get("cache", False)
        if not isinstance(cache, bool):
            self._fail("cache", key, f"expected true or false, got {cache!r}")
        if model is not None and not isinstance(model, str):
            self._fail("model", key, f"expected text, got {type(model).__name__}")
        if not isinstance(options, dict):
            self._fail("options", key, f"expected a table, got {type(options).__name__}")
        return BackendChoice(value["backend"], model, options, cache, style)

    def _sensitivities(self, data: dict[str, Any]) -> dict[str, Sensitivity]:
        found = {}
        for name, value in self._table(data, "sensitivities").items():
            if not isinstance(value, dict):
                self._fail(name, "sensitivities", "expected { start = …, step = …, floor = … }")
            if name not in SENSITIVITIES and not self._asked_by_a_routine(name, data):
                near = difflib.get_close_matches(name, SENSITIVITIES, 1, cutoff=0.0)[0]
                known = ", ".join(SENSITIVITIES)
                self._fail(
                    name,
                    "sensitivities",
                    f"unknown threshold; the nearest is {near}; known: {known}",
                )
            one = self._record(Sensitivity, value, name)
            if not one.floor <= one.start or one.step <= 0:
                self._fail(name, "sensitivities", "expected floor <= start and step > 0")
            if one.fixed is not None and not one.floor <= one.fixed:
                self._fail(name, "sensitivities", "expected floor <= fixed")
            if not all(math.isfinite(number) for number in value.values()):
                self._fail(name, "sensitivities", "expected finite numbers")
            found[name] = one
        return found

    def _asked_by_a_routine(self, name: str, data: dict[str, Any]) -> bool:
        """Whether a file of routines that the profile names asks for a threshold of that name."""
        return any(f'"{name}"' in text or f"'{name}'" in text for text in self._routines(data))

    def _routines(self, data: dict[str, Any]) -> Iterator[str]:
        """The text of each file of routines; one that cannot be read is blamed where it is used."""
        api = self._table(data, "run").get("api")
        for part in split_api(api) if isinstance(api, str) else ():
            path = self.path.parent / Path(part).expanduser()
            if path.suffix == ".py" and path.is_file():
                yield path.read_text(encoding="utf-8", errors="replace")

    def _families(self, value: Any) -> tuple[tuple[str, ...], ...]:
        if not isinstance(value, list) or not all(isinstance(words, list) for words in value):
            self._fail("attribute_families", "tools", "expected a list of lists of words")
        return tuple(self._texts(words, "attribute_families", "tools") for words in value)

    def _texts(self, value: Any, key: str, section: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._fail(key, section, f"expected a list of words, got {value!r}")
        return tuple(value)

    def _numbers(self, value: Any, key: str, section: str) -> tuple[float, ...]:
        if not isinstance(value, list) or not all(type(item) in (int, float) for item in value):
            self._fail(key, section, f"expected a list of numbers, got {value!r}")
        return tuple(value)

    def _record(self, kind: Any, values: dict[str, Any], section: str, **fixed: Any) -> Any:
        fields = {item.name: item for item in dataclasses.fields(kind) if item.name not in fixed}
        self._only(values, fields, section)
        values = dict(values)
        for key, value in values.items():
            annotation = str(fields[key].type)
            if annotation.startswith("tuple[str,"):
                values[key] = self._texts(value, key, section)
            elif annotation.startswith("tuple[float,"):
                values[key] = self._numbers(value, key, section)
            expected = _expected(annotation)
            if expected and (
                not isinstance(value, expected)
                or (isinstance(value, bool) and bool not in expected)
            ):
                names = " or ".join(item.__name__ for item in expected)
                self._fail(key, section, f"expected {names}, got {type(value).__name__} {value!r}")
        missing = [
            name
            for name, item in fields.items()
            if name not in values
            and item.default is dataclasses.MISSING
            and item.default_factory is dataclasses.MISSING
        ]
        if missing:
            self._fail(section, "", f"the key {missing[0]!r} is missing")
        try:
            return kind(**values, **fixed)
        except UsageError as error:
            self._blame(kind, values, section, fixed)
            self._fail(section, "", str(error))

    def _blame(
        self, kind: Any, values: dict[str, Any], section: str, fixed: dict[str, Any]
    ) -> None:
        """Fails with the first key whose value is wrong by itself, where there is one."""
        for key, value in values.items():
            try:
                kind(**{key: value}, **fixed)
            except UsageError as error:
                self._fail(key, section, str(error))

    def _table(self, data: dict[str, Any], key: str, section: str = "") -> dict[str, Any]:
        value = data.get(key, {})
        if not isinstance(value, dict):
            self._fail(key, section, f"expected a table [{key}], got {type(value).__name__}")
        return dict(value)

    def _text(self, data: dict[str, Any], key: str, default: str) -> str:
        value = data.get(key, default)
        if not isinstance(value, str):
            self._fail(key, "", f"expected text, got {type(value).__name__}")
        return str(value)

    def _only(self, table: Mapping[str, Any], known: Any, section: str) -> None:
        for key in table:
            if key not in known:
                self._fail(key, section, f"unknown key; known: {', '.join(known)}")

    def _fail(self, key: str, section: str, problem: str) -> None:
        where = f"{section}.{key}" if section else key
        raise ProfileError(f"{self.path}:{self._line(key, section)}: {where}: {problem}")

    def _line(self, key: str, section: str) -> int:
        """The line that defines a key, looked for after its section's header; 1 if not found."""
        section = section.removeprefix("run.")
        quoted = re.escape(key)
        table = rf'(?:{re.escape(section)}\s*\.\s*)?"?{quoted}"?'
        defines = re.compile(rf'(^|[{{,\s.])"?{quoted}"?\s*=|^\s*\[+\s*{table}\s*\]')
        header = re.compile(rf'^\s*\[+.*\b{re.escape(section)}\b|"?{re.escape(section)}"?\s*[=.]')
        inside = not section
        for number, line in enumerate(self._lines, start=1):
            if line.lstrip().startswith("#"):
                continue
            inside = inside or bool(header.search(line))
            if inside and defines.search(line):
                return number
        return 1


def _expected(annotation: str) -> tuple[type, ...]:
    """The TOML types a field accepts, from its annotation; empty where anything goes."""
    if annotation.startswith("bool"):
        return (bool,)
    if annotation.startswith("int"):
        return (int,)
    if annotation.startswith("float"):
        return (int, float)
    if annotation.startswith("str"):
        return (str,)
    return ()
