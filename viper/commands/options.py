"""Options that several commands share, and dataclasses that receive the options of a command.

A command's dataclass declares its options as fields; `options_as` turns them into options of click
and passes one object. Those of `run` and `eval` stand in `run_options.py`, and those of settings
where the setting is declared (`viper/strategies/settings.py`).
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import shlex
import tempfile
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from viper.commands.terminal import is_quiet, note, status, warn
from viper.errors import MediaError, UsageError
from viper.escape import for_terminal
from viper.record import RECORD_SCHEMA
from viper.storage.files import check_is_no_input, replace_file

if TYPE_CHECKING:
    from viper.evaluate.evaluation import Evaluation
    from viper.models.media import Media
    from viper.profiles.wiring import Profile
    from viper.reasoner import Reasoner
    from viper.tuning.wiring import Data

PROGRAMS, EXAMPLES, LIMITS, WORKERS = "Programs", "Examples", "Limits", "Workers"
MACHINE, OUTPUT, QUERY = "Models and machine", "Output", "Query"


class Option(click.Option):
    """An option with the heading of its section; the empty heading stands for ``Options``."""

    def __init__(self, *args: Any, section: str = "", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help lists its options in sections.

    Args:
        first: names of the parameters, separated by spaces, that the first section lists in this
            order. The first section also lists the options that declare no section.
    """

    def __init__(self, *args: Any, first: str = "", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._first = first.split()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a heading and a table for each section."""
        first = {name: place for place, name in enumerate(self._first)}
        params = sorted(
            self.get_params(ctx), key=lambda option: first.get(option.name or "", len(first))
        )
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in params:
            record = param.get_help_record(ctx)
            if record and isinstance(param, click.Option):
                section = "" if param.name in first else getattr(param, "section", "")
                sections.setdefault(section or "Options", []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class Name(click.ParamType):
    """Type of an option or argument with known names, which a shell completes.

    A key press imports only the registry of the names. The command itself checks the value.

    Args:
        names: ``module:attribute`` of a function that returns the names; "" for none.
        files: complete paths as well.
        joined: several names may be joined by ``+``.
    """

    name = "text"

    def __init__(self, names: str, *, files: bool = False, joined: bool = False) -> None:
        self._names, self._files, self._joined = names, files, joined

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        before = incomplete[: incomplete.rfind("+") + 1] if self._joined else ""
        known: Any = resolve_name(self._names)() if self._names else ()
        full = [f"{before}{name}" for name in sorted(known)]
        # bash lists paths only if no name follows, and forgets the names before this mark
        items = [CompletionItem(incomplete, type="file")] if self._files else []
        return items + [CompletionItem(name) for name in full if name.startswith(incomplete)]


def _routines() -> set[str]:
    """Return the names that ``viper setup routine show`` knows without ``--api``."""
    from viper.api.sets import api_set
    from viper.schema import DEFAULT_API, TASKS

    listed = api_set(DEFAULT_API)
    return {entry.name for task in TASKS if task != "auto" for entry in listed.entries(task)}


PROFILE = Name("viper.profiles.files:known_profiles", files=True)
STRATEGY = Name("viper.strategies:strategy_names")
API = Name("viper.api.library:known_apis", files=True, joined=True)
DATA_SET = Name("viper.data.registry:DATASETS.names", files=True)
ROUTINE = Name("viper.commands.options:_routines")
MEDIA = Name("", files=True)


# Range of seeds that stores and random generators accept, with room for offsets.
SEED = click.IntRange(-(2**31), 2**31)

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


# Bytes that a place must have room for before a command begins: a full disk shows, and no more is
# written than the smallest result takes.
_ROOM = 1 << 14


class OutPath(click.Path):
    """Type of an option that names a file or a folder to write; it need not exist.

    A place without write permission or room raises an error before any work. Nothing is created
    yet.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(super().convert(value, param, ctx))  # type: ignore[arg-type]
        option = param.opts[0] if param is not None and param.opts else "the path"
        whole = path.expanduser().absolute()
        nearest = whole
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
        try:
            if nearest == whole and not nearest.is_dir():  # a file, or a device like /dev/stdout
                if not os.access(nearest, os.W_OK):
                    raise PermissionError(0, "not writable")
                return path
            with tempfile.TemporaryFile(dir=nearest) as file:
                file.write(bytes(_ROOM))
        except OSError as error:
            why = "it is not a folder" if nearest.is_file() else error.strerror
            raise UsageError(
                f"{option} {path}: nothing can be written in {nearest} ({why}); give another place"
            ) from None
        return path


class OutFile(OutPath):
    """Type of an option that names a picture or a page to write."""

    def __init__(self, kind: Literal["picture", "page"]) -> None:
        super().__init__()
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = super().convert(value, param, ctx)
        if path.is_dir():
            raise UsageError(f"{path}: is a folder; give the name of a file in it")
        if self._kind == "picture":
            from viper.draw import check_picture_path

            check_picture_path(path)
        elif path.suffix.lower() not in (".html", ".htm"):
            raise UsageError(f"{path}: a page needs the suffix .html, not {path.suffix!r}")
        return path


def free_profile(out: Path) -> Path:
    """Return the file of a new profile, or raise an error before any work is done."""
    if out.suffix != ".toml":
        raise UsageError(f"--out {out}: the name of a profile's file ends in .toml")
    if out.exists():
        raise UsageError(f"{out}: there already; choose another name or remove it")
    return out


def options(*decorators: Decorator) -> Decorator:
    """Return one decorator for several options, which ``--help`` lists in this order."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorated


def option(*spellings: str, **declared: Any) -> Any:
    """Return a field that declares an option; arguments as of ``click.option``.

    The name of the field is the name of the parameter. The annotation of the field gives the type:
    a ``bool`` is a flag, a ``tuple`` may be repeated, a ``Literal`` lists the choices. ``--help``
    shows the default unless ``show_default`` is False.
    """
    default = declared.get("default")
    declared.setdefault("show_default", default not in (None, ""))

    def typed(name: str, annotation: Any) -> Decorator:
        spelled = dict.fromkeys((*spellings, name))
        return click.option(*spelled, cls=Option, **(_of_annotation(annotation) | declared))

    return field(default=default, metadata={"option": typed})


def _of_annotation(annotation: Any) -> dict[str, Any]:
    """Return the attributes of an option that follow from the annotation of its field."""
    parts = get_args(annotation)
    if get_origin(annotation) is tuple:
        return {**_of_annotation(parts[0]), "multiple": True}
    if get_origin(annotation) is Literal:
        return {"type": click.Choice(parts)}
    if type(None) in parts:
        return _of_annotation(parts[0])
    if annotation is bool:
        return {"is_flag": True}
    return {"type": click.Path(path_type=Path) if annotation is Path else annotation}


def given_by(decorator: Decorator, default: Any = None) -> Any:
    """Return a field that the option of a decorator fills; several options fill a mapping."""
    return field(default=default, metadata={"option": lambda *_: decorator})


def _check_outputs(context: click.Context) -> list[Path]:
    """Return the files and folders to write; none may be one that the command line reads."""
    outputs = {p.name for p in context.command.params if isinstance(p.type, OutPath)}
    inputs: list[str | Path] = []
    for name, value in context.params.items():
        if name not in outputs:
            values = value if isinstance(value, tuple) else (value,)
            inputs += [each for each in values if isinstance(each, str | Path)]
    paths = [path for name in outputs if isinstance(path := context.params.get(name), Path)]
    for path in paths:
        check_is_no_input(path, inputs)
    return paths


def _written_at(path: Path) -> int | None:
    """Return when a file or folder was written, in ns; None for anything else."""
    return path.stat().st_mtime_ns if path.is_file() or path.is_dir() else None


def options_as(kind: type[Any]) -> Decorator:
    """Give a command the options that a dataclass declares, and pass them to it as one object.

    The object is a positional argument, that of an upper decorator before that of a lower one.
    ``--help`` lists the options of a class before those of its bases.
    """

    declared = {each.name: each.metadata.get("option") for each in fields(kind)}
    types = get_type_hints(kind)
    names = [name for each in kind.__mro__ for name in inspect.get_annotations(each)]

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(*objects: Any, **values: Any) -> Any:
            context = click.get_current_context()
            is_first = context.meta.setdefault("viper.options", call) is call  # of several objects
            before = {p: _written_at(p) for p in (_check_outputs(context) if is_first else ())}
            given = {}
            for name, added in parameters.items():
                several = {parameter: values.pop(parameter) for parameter in added}
                given[name] = several if len(added) > 1 else several[added[0]]
            code = command(*objects, kind(**given), **values)
            for path, time_ns in before.items() if not is_quiet() else ():
                if _written_at(path) not in (None, time_ns):
                    hint = "; open it in a browser" if path.suffix in (".html", ".htm") else ""
                    note(f"written: {path.absolute()}{hint}")
            return code

        parameters: dict[str, list[str]] = {}
        for name in reversed(dict.fromkeys(names)):
            if declare := declared.get(name):
                before = len(getattr(call, "__click_params__", ()))
                declare(name, types[name])(call)
                parameters[name] = [param.name for param in call.__click_params__[before:]]  # type: ignore[attr-defined]
        return call

    return decorated


# fmt: off
root_option: Decorator = click.option("--root", type=click.Path(path_type=Path), metavar="DIR",
    help="Folder that holds the official files of the data set.")

state_option: Decorator = click.option("--state", cls=Option, section=MACHINE, metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for pools, caches and your own profiles. By default VIPER_HOME, or the user's "
         "data folder.")

verbose_option: Decorator = click.option("-v", "--verbose", is_flag=True, cls=Option,
    section=OUTPUT, help="Print each trial with its failure.")

quiet_option: Decorator = click.option("-q", "--quiet", is_flag=True, cls=Option,
    section=OUTPUT, help="Print the answer and warnings only.")

api_option: Decorator = click.option("--api", cls=Option, section=PROGRAMS, type=API,
    metavar="NAME[+FILE.py]",
    help="Functions that programs may call: abstract, more (ours), vipergpt, visprog, knowledge, "
         "look, numpy, photo, long_video, dwim, dwim-ccq, dwim-ekvqa, dwim-gd, dwim-vasa, "
         "dwim-vcr, dwim-vlcu, a file with your own routines, or several joined by +.")


fields_option: Decorator = click.option("--schema", "fields", cls=Option, default="",
    section=QUERY, metavar="NAME:TYPE,…",
    help="Fields to read from a document, as total:money,date:date,company:text. Types: text, "
    "money, number, date. Sets the task to extract.")

schema_option: Decorator = click.option("--json-schema", cls=Option, section=OUTPUT, metavar="N",
    type=click.IntRange(1, RECORD_SCHEMA), default=RECORD_SCHEMA,
    help="Version of the object of --json; 1 has the boxes of tool calls from the lower left.")

page_option: Decorator = click.option("--page", cls=Option, section=MACHINE,
    type=click.IntRange(1), metavar="N",
    help="Page of a file with several. By default the first of a TIFF and all of a PDF.")


def read_media(paths: Sequence[str], page: int | None) -> Media:
    """Read the media of a command line, and warn of what their files hold besides."""
    from viper.models.media import media_from

    media = media_from(list(paths), page)
    for text in media.notes:
        warn(for_terminal(text))
    return media


def seed_option(help_text: str) -> Decorator:
    """Return ``--seed``."""
    return click.option("--seed", cls=Option, type=SEED, default=0, show_default=True,
        help=help_text)


def seed_field(
    help_text: str = "First random seed; it chooses the samples and seeds the sampling.",
    section: str = "",
) -> Any:
    """Return a field for ``--seed``."""
    return option("--seed", section=section, type=SEED, default=0, help=help_text)


def split_field(help_text: str) -> Any:
    """Return a field for ``--split``."""
    return option("--split", metavar="NAME", help=help_text)


def out_field(metavar: str, help_text: str) -> Any:
    """Return a field for ``--out``, which must be given."""
    return option("--out", type=OutPath(), required=True, metavar=metavar, help=help_text)


def learned_field(by_default: bool = True) -> Any:
    """Return a field for ``--learned``: use what ``viper learn`` stored in the state folder."""
    return option("--learned/--no-learned", section=EXAMPLES, default=by_default,
        help="Use what viper learn stored in the state folder: soft prompts and demonstrations.")


def workers_field(help_text: str = "Number of samples to answer at the same time.") -> Any:
    """Return a field for ``--workers``."""
    return option("--workers", section=WORKERS, type=click.IntRange(1, 1024), default=16,
        help=help_text)
# fmt: on


@dataclass(frozen=True, kw_only=True)
class DataTrust:
    """The option of commands that read what somebody else may have made."""

    # fmt: off
    trust: bool = option("--trust", default=False, show_default=False,
        help="Run the files of routines and the backends that the data name, outside the sandbox, "
             "as if they were your own. Without it, data run no code of theirs.")
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Options of commands that serve a page until Ctrl-C."""

    # fmt: off
    port: int = option("--port", type=click.IntRange(0, 65535), default=0, show_default=False,
        help="Port to listen on. By default a free port.")
    host: str = option("--host", default="127.0.0.1",
        help="Address to listen on. The address of the page holds a random token; everybody who "
             "has it can read the pages.")
    open_browser: bool = option("--open/--no-open", default=True,
        help="Open the page in a browser.")
    # fmt: on


def _default_data() -> str:
    from viper.tuning.wiring import default_data

    return default_data()


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Training pictures: ``--annotated --annotated-root --pictures --positives``."""

    # fmt: off
    annotated: str = option("--annotated", metavar="world|lvis|FILE.json|none",
        default=_default_data, show_default="world", section="Training images",
        help="Source of boxes and masks of concepts, for loc and seg: the embedded world, LVIS, or "
             "a file in COCO's form.")
    annotated_root: Path | None = option("--annotated-root", metavar="DIR",
        section="Training images", help="Folder that holds the official files of LVIS, or the "
        "pictures of FILE.json; by default images beside it, else its own folder.")
    pictures: str = option("--pictures", metavar="world|none|DIR|FILE.toml",
        default=_default_data, show_default="world", section="Training images",
        help="Source of images of concepts, for match and replace: the embedded world, a folder, "
             "or a web search that FILE.toml describes.")
    positives: int = option("--positives", type=click.IntRange(2), metavar="N", default=7,
        section="Training images",
        help="Maximum number of images of a concept; loc takes up to 200, seg 50, the others 7.")
    # fmt: on

    def data(self, seed: int = 0) -> Data:
        """Return the sources that the options name."""
        from viper.tuning.wiring import Data

        root = self.annotated_root
        return Data(self.annotated, root, self.pictures, self.positives, seed)


@dataclass(frozen=True, kw_only=True)
class ProfileChoice:
    """Profile and machine: ``--profile --sandbox --offline --max-memory --state``.

    A command that offers one of the further fields declares it as an option.

    Attributes:
        api: functions that programs may call; None for those of the profile.
        learned: use what ``viper learn`` stored in the state folder.
        examples_bank: bank that replaces the examples of the profile.
        thresholds: start values of thresholds, as ``NAME=VALUE``.
    """

    # fmt: off
    profile: str = option("--profile", default="auto", metavar="NAME|FILE.toml",
        section=MACHINE, type=PROFILE,
        help="Profile: the model of each role, thresholds and limits. auto is "
             "VIPER_PROFILE, else the choice of viper setup, else embedded.")
    sandbox: Literal["strict", "weak"] = option("--sandbox", default="strict", section=MACHINE,
        help="Sandbox mode; weak continues if a protection layer is missing (see viper setup "
             "doctor).")
    offline: bool = option("--offline", default=False, show_default=False, section=MACHINE,
        help="Never contact a model hub; use only what is on this disk.")
    max_memory_gb: float | None = option("--max-memory", metavar="GB", section=MACHINE,
        type=click.FloatRange(min=0, min_open=True),
        help="Memory limit for the weights of all models, in GiB.")
    state: Path | None = given_by(state_option)
    # fmt: on
    api: str | None = None
    learned: bool = False
    examples_bank: str | None = None
    thresholds: tuple[str, ...] = ()


# What was told once for a state folder, in that folder.
_ANNOUNCED = "announced-backends.txt"


def note_once(state: Path | None, key: str, text: str) -> None:
    """Print a note that a state folder has not had under this key."""
    from viper.profiles.files import state_dir

    file = state_dir(state) / _ANNOUNCED
    known = file.read_text("utf-8").splitlines() if file.is_file() else []
    if key not in known:
        note(text)
        with suppress(OSError):  # where nothing can be kept, it is told each time
            replace_file(file, "".join(f"{each}\n" for each in (*known, key)))


def announce_backends(profile: Profile) -> None:
    """Tell once for each state folder which code that is not viper's a profile runs, and what it
    inherits from a profile with other models.
    """
    from viper.profiles.backends import shipped

    for role, choice in profile.choices():
        line = f"{role}: {choice.backend}"
        if shipped(role, choice.backend) is None:
            text = f"first use of a backend that is not viper's: {line} (profile {profile.name})"
            note_once(profile.state, line, text)
    for text in profile.document.notes:
        note_once(profile.state, f"{profile.name}: {text}", f"profile {profile.name}: {text}")


def open_profile(choice: ProfileChoice) -> Profile:
    """Return the profile that the options of a command name, without loading models.

    Raises:
        UsageError: a threshold is not of the form ``NAME=VALUE``.
        UnknownNameError: the profile has no such threshold; the message lists its thresholds.
    """
    quiet_libraries(choice.offline)
    from viper.profiles import load_profile

    profile = load_profile(
        choice.profile,
        sandbox=choice.sandbox,
        api=choice.api,
        max_memory_gb=choice.max_memory_gb,
        state=choice.state,
        learned=choice.learned,
    )
    announce_backends(profile)
    if choice.examples_bank:
        profile = profile.with_bank(choice.examples_bank)
    thresholds = {}
    for text in choice.thresholds:
        name, _, value = text.partition("=")
        try:
            thresholds[name.strip()] = float(value)
        except ValueError:
            thresholds[name.strip()] = math.nan
        if not math.isfinite(thresholds[name.strip()]):
            raise UsageError(
                f"--threshold {text!r}: expected NAME=VALUE, as detector.threshold=0.2"
            )
    return profile.with_thresholds(thresholds) if thresholds else profile


# The sandbox refuses longer programs; this says so before anything is loaded.
MAX_PROGRAM_BYTES = 64 * 1024


def read_program(path: Path, max_bytes: int = MAX_PROGRAM_BYTES) -> str:
    """Return the text of a program's file, or of standard input for ``-``.

    Raises:
        UsageError: it is missing, too large or no text.
    """
    from viper.api.routine_files import read_source

    if str(path) != "-" and not path.is_file():
        raise MediaError(f"{path}: no such program file")
    return read_source(path, max_bytes)


def programs_option(section: str) -> Any:
    """Return a field with the option for programs in place of a writer."""
    return option("--programs", section=section, metavar="DIR",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Answer by the programs of this folder, one file KIND.py for each kind of sample, "
             "and ask no language model; other kinds are left out.")  # fmt: skip


def evaluation_of(name: str, choice: Any, split: str | None = None, **more: Any) -> Evaluation:
    """Return the evaluation of the samples that --root --split --limit --ids --seed choose.

    Args:
        name: the data set.
        choice: object with these options as attributes; ``ids`` may be missing.
        split: split instead of that of the options; by default the first of the data set.
        more: further attributes of the evaluation.
    """
    from viper.data.registry import data_set
    from viper.data.sample import DatasetSpec
    from viper.evaluate.evaluation import Evaluation, read_ids
    from viper.evaluate.metrics import metric

    spec = DatasetSpec(choice.root, split or choice.split, choice.seed)
    ids = read_ids(choice.ids) if getattr(choice, "ids", None) else ()
    metric(data_set(name).metric)  # a wrong name ends here, before models load
    folder = getattr(choice, "programs", None)
    if isinstance(folder, Path):  # learn writer has a number of this name
        files = sorted(folder.glob("*.py"))
        if not files:
            raise UsageError(f"--programs {folder}: no file KIND.py, as count.py")
        more = {"programs": {path.stem: read_program(path) for path in files}, **more}
    return Evaluation(name, spec, choice.limit, ids=ids, **{"seeds": (choice.seed,), **more})


def fetch_models(profile: Profile) -> None:
    """Download the models of a profile that are not on this disk.

    Raises:
        ModelError: one of them cannot be downloaded; without a hub, it lists them all.
    """
    from viper.commands.download import download_all
    from viper.profiles.inventory import downloads

    download_all(downloads(profile))


def open_reasoner(choice: ProfileChoice | Profile, *, many_queries: bool = False) -> Reasoner:
    """Return the Reasoner that the options of a command describe; its models load on first use.

    Args:
        choice: the options, or the profile that :func:`open_profile` made of them.
        many_queries: preload vision models if the profile says so. For a single query, models
            that it does not need would only delay the answer.
    """
    profile = open_profile(choice) if isinstance(choice, ProfileChoice) else choice
    fetch_models(profile)
    with status("starting"):
        from viper.reasoner import Reasoner

        return Reasoner(profile, preload=None if many_queries else False)


def quiet_libraries(offline: bool) -> None:
    """Silence the model libraries, disable their statistics and, if `offline`, their downloads.

    They read these environment variables on import, so call this before importing them.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if offline:
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
            os.environ[name] = "1"


def command_line(context: click.Context, leave_out: Collection[str] = ()) -> str:
    """Return the running command with its explicit options, quoted for a shell.

    Args:
        leave_out: names of parameters that do not change the result.
    """
    words = context.command_path.split()
    arguments: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        is_on_command_line = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not is_on_command_line or name in leave_out:
            continue
        value = context.params[name]
        values = map(str, value if isinstance(value, list | tuple) else [value])
        if not isinstance(parameter, click.Option):
            arguments += values
        elif parameter.is_flag:
            spellings = parameter.opts if value else parameter.secondary_opts or parameter.opts
            words.append(max(spellings, key=len))
        else:
            spelling = max(parameter.opts, key=len)
            words += [word for text in values for word in (spelling, text)]
    if any(argument.startswith("-") for argument in arguments):
        words.append("--")
    return shlex.join([*words, *arguments])
