"""The settings of a run; each is declared once, here or in the package of its strategy.

A declaration is a field of a dataclass with its type, default, bounds, help text, and whether the
command line and HTTP offer it. All else is derived from it: the check of its value, the keys of a
profile's ``[run]``, keywords of ``RunOptions``, options of ``viper run`` and ``viper eval``, fields
of ``POST /v1/run``, and the table in docs/profiles.md.

A strategy's own settings are a subclass of :class:`Settings`. The table of strategies names it; a
plug-in names it as the attribute ``settings`` of its class. Names are unique over all strategies,
so that a key, an option or a field needs no prefix. Nothing heavy is imported, because ``--help``
reads this module.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, get_type_hints

from viper import schema
from viper.errors import UnknownNameError, UsageError
from viper.strategies import STRATEGIES, settings_class, strategy_names

# Limits of what may be asked for: endpoints refuse higher temperatures, more trials than 50 would
# share seeds with resamples, and a larger number of examples is a slip of the keyboard.
MAX_TEMPERATURE = 2
MAX_TRIALS = 50
MAX_EXAMPLES = 1_000

_S = TypeVar("_S", bound="Settings")


@dataclass(frozen=True)
class Declaration:
    """The facts about a setting in addition to its name, type and default.

    Attributes:
        help: a sentence with its full stop.
        section: heading of the option in ``--help``; a strategy's own settings have their own.
        least: smallest accepted number; None for no limit.
        most: largest accepted number.
        unbounded: the setting is a limit, and 0 means no limit.
        choices: accepted texts; empty accepts any text.
        kind: noun for an unknown choice in the error message, if not the setting's name.
        is_path: the value names a file; in a profile, relative to the profile's folder.
        cli: offered on the command line; ``flag`` is the option if it is not ``--NAME``,
            ``earlier`` its spelling in earlier versions, and ``metavar`` stands for the value.
        http: a field of ``POST /v1/run``. Never for names of files, because callers are strangers.
        allowed: accepted values for the documentation, if the other attributes do not tell.
    """

    help: str
    section: str = ""
    least: float | None = None
    most: float | None = None
    unbounded: bool = False
    choices: Sequence[str] = ()
    kind: str = ""
    is_path: bool = False
    cli: bool = True
    http: bool = True
    flag: str = ""
    earlier: str = ""
    metavar: str = ""
    allowed: str = ""


def setting(default: Any, help_text: str, **declared: Any) -> Any:
    """Return a dataclass field that declares a setting; keywords as in :class:`Declaration`."""
    return field(default=default, metadata={"declaration": Declaration(help_text, **declared)})


class Setting(NamedTuple):
    """A setting with its declaration.

    Attributes:
        type: type of its values: bool, int, float, str, or a tuple of one of them.
        strategy: the strategy that it belongs to; "" for all strategies.
    """

    name: str
    type: Any
    default: Any
    declaration: Declaration
    strategy: str = ""

    @property
    def text(self) -> str:
        """Return the help text, with the meaning of 0 at the end."""
        text = self.declaration.help
        return (
            text.removesuffix(".") + "; 0 means no limit." if self.declaration.unbounded else text
        )

    @property
    def help(self) -> str:
        """Return the help text, preceded by the strategy, for lists of all settings."""
        text = self.text
        return f"{self.strategy}: {text[0].lower()}{text[1:]}" if self.strategy else text

    @property
    def option(self) -> str:
        """Return the option of the command line; a flag includes its opposite after a slash."""
        if self.declaration.flag:
            return self.declaration.flag
        words = self.name.replace("_", "-")
        return f"--{words}/--no-{words}" if self.type is bool else f"--{words}"

    @property
    def keyword(self) -> inspect.Parameter:
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(self.name, kind, default=self.default, annotation=self.type)

    def check(self, value: Any) -> None:
        """Check a value against the declaration.

        Raises:
            UnknownNameError: it is not among the choices.
            UsageError: a number is out of range.
        """
        rule = self.declaration
        for text in value if isinstance(value, tuple) else (value,):
            if rule.choices and text not in rule.choices:
                kind = rule.kind or self.name.replace("_", " ")
                raise UnknownNameError(kind, text, rule.choices)
        if rule.least is None:
            return
        number: Any
        number, words = (Integral, "a whole number") if self.type is int else (Real, "a number")
        if not isinstance(value, number) or isinstance(value, bool):
            raise UsageError(f"{self.name} is {value!r}; expected {words}")
        expected = f"expected {rule.least:g} or more"
        if rule.most is not None:
            expected = f"expected {rule.least:g} to {rule.most:g}"
        elif rule.unbounded:
            expected = "0 or more, 0 for no bound"
        if not rule.least <= value <= (math.inf if rule.most is None else rule.most):
            raise UsageError(f"{self.name} is {value}; {expected}")


@dataclass(frozen=True)
class Settings:
    """A group of settings; a subclass is a frozen dataclass of :func:`setting` fields.

    Raises:
        UnknownNameError: a value is not among the choices of its setting.
        UsageError: a number is out of range.
    """

    def __post_init__(self) -> None:
        for item in declared_settings(type(self)):
            item.check(getattr(self, item.name))

    def check_files(self) -> None:
        """Read the files that the settings name, if a strategy has such settings.

        Raises:
            ViperError: a file is missing or cannot be used.
        """


def declared_settings(kind: type[Settings], strategy: str = "") -> tuple[Setting, ...]:
    """Return the settings that a class declares, in order."""
    return _declared(kind, strategy)  # type: ignore[arg-type]


@cache
def _declared(kind: Any, strategy: str) -> tuple[Setting, ...]:
    types = get_type_hints(kind)
    return tuple(
        Setting(item.name, types[item.name], item.default, item.metadata["declaration"], strategy)
        for item in dataclasses.fields(kind)
        if "declaration" in item.metadata
    )


@dataclass(frozen=True)
class RunSettings(Settings):
    """Settings of the generation and correction of programs, and of single strategies.

    ``temperature`` 0 is greedy. Writing each program from scratch (no ``feedback``) and the bank's
    first examples (``retrieval`` ``fixed``) are the best choices in Stanić et al. 2024 (sec. 3.3).
    ``average_box`` is ViperGPT's average box on a picture of 640 x 480 pixels, the usual size in
    RefCOCO.

    Attributes:
        own: settings of single strategies, by strategy, if they are not the default ones.

    Raises:
        UnknownNameError: an unknown fallback, retrieval, example order, prompt style or router.
        UsageError: a number out of range, or an average box that is no box within the picture.
    """

    # fmt: off
    strategy: str = setting("program", "Strategy that answers.", cli=False,
        allowed="a [strategy](running.md)")
    api: str = setting(schema.DEFAULT_API, "Functions that programs may call.",
        allowed="sets and [files](extending.md), joined by `+`", cli=False)
    # Profiles override these defaults in their table [run]; the embedded one has other examples.
    trials: int = setting(3, "Maximum number of programs to write, for each vote.",
        section="Programs", least=1, most=MAX_TRIALS)
    temperature: float = setting(0.0, "Temperature of the first program; 0 means greedy decoding.",
        section="Programs", least=0, most=MAX_TEMPERATURE)
    retry_temperature: float = setting(0.4,
        "Minimum temperature of later votes and of later programs from scratch.", least=0,
        most=MAX_TEMPERATURE, cli=False, http=False)
    feedback: bool = setting(False,
        "Show the failed program and its error in the request for the next program.",
        section="Programs", flag="--feedback/--from-scratch")
    self_tune: bool = setting(True, "Lower the threshold at fault and run the same program again.",
        section="Programs")
    tune_on_evidence: bool = setting(True,
        "Self-tune also if the program ran but its answer rests on what a threshold left out.",
        section="Programs", flag="--tune-on-evidence/--tune-on-failure")
    on_misfit: str = setting("ask",
        "An answer of another kind than the question asks for: ask once more and then accept it "
        "with a warning, refuse it, or accept it at once.",
        section="Programs", choices=("ask", "refuse", "accept"))
    votes: int = setting(1,
        f"Answer up to N times, at most {schema.MAX_VOTES}; the most frequent answer wins.",
        section="Programs", least=1, most=schema.MAX_VOTES, metavar="N")
    verify: bool = setting(False,
        "Write at least 3 programs, choose among them by their behaviour, and test the answer.",
        section="Programs")
    checks: bool = setting(False,
        "Run the program that answered again on small changes of its input, until an answer "
        "differs; the result counts in the confidence.",
        section="Programs")
    abstain: float = setting(0.0,
        "Give an answer only if the expected error of answers is at most RISK; 0 gives all.",
        section="Programs", least=0, most=1, metavar="RISK")
    examples: int = setting(4, "Maximum number of in-context examples in the prompt.",
        section="Examples", least=0, most=MAX_EXAMPLES, flag="--n-examples", metavar="N")
    careful: bool = setting(True,
        "Let solved queries of this package count as examples where the bank has too few, in the "
        "style `chat`; they are not mined, so results with them are not zero-shot.",
        cli=False, http=False)
    retrieval: str = setting("fixed",
        "Choice of examples: fixed takes the first of the bank, the others the most similar.",
        section="Examples", choices=schema.RETRIEVALS)
    example_order: str = setting("rising",
        "Order of the examples; rising puts the best one last, next to the query.",
        section="Examples", choices=schema.EXAMPLE_ORDERS)
    prompt_style: str = setting("full",
        "Style of the prompt; `compact` suits small program writers.",
        choices=schema.PROMPT_STYLES, cli=False, http=False)
    max_tokens: int = setting(512, "Maximum length of one program in tokens.", least=1, cli=False,
        http=False)
    seed: int = setting(0, "Random seed for sampling.", least=-(2**31), most=2**31,
        allowed="a whole number", cli=False)
    reflector: str = setting("intervention",
        "Method by which `viper learn` finds the fault: intervention changes tool results, llm "
        "asks the language model.",
        choices=("intervention", "llm", "both", "none"), cli=False, http=False)
    usual_task: str = setting("auto",
        "Task of a query without a task or options; auto reads it from words and media.",
        choices=schema.TASKS, cli=False, http=False)
    list_api: bool = setting(True,
        "List the names of the API in the prompt; a writer that was trained on one API needs none.",
        cli=False, http=False)
    api_budget: int = setting(0,
        "Maximum number of tokens for the text of the API; a router then selects functions.",
        least=0, unbounded=True, cli=False, http=False)
    api_text: str = setting("short",
        "Text of the API in chat prompts: short, or whole with an example of each function.",
        choices=("short", "whole"), cli=False, http=False)
    router: str = setting("bm25", "Method by which the router ranks functions.",
        choices=schema.RANKERS, cli=False, http=False)
    max_llm_calls: int = setting(0,
        "Maximum number of requests to language models for one query, those of tools included.",
        section="Limits", least=0, unbounded=True, metavar="N")
    max_llm_tokens: int = setting(0,
        "Number of tokens for one query after which no language model gets a request; those under "
        "way may exceed it.",
        section="Limits", least=0, unbounded=True, metavar="N")
    max_cost_usd: float = setting(0.0,
        "Cost of one query in US dollars after which no language model gets a request, if prices "
        "are known; those under way may exceed it.",
        section="Limits", least=0, unbounded=True, flag="--max-cost", metavar="USD")
    max_seconds: float = setting(0.0,
        "Seconds for one query, from when its media are read; then the best answer so far counts, "
        "once a model at work has ended.",
        section="Limits", least=0, unbounded=True, flag="--timeout", earlier="--max-seconds",
        metavar="SECONDS")
    fallback: str = setting("none",
        "Source of the answer if every trial failed; such answers are marked.", section="Programs",
        choices=schema.FALLBACKS)
    average_box: tuple[float, ...] = setting((0.0795, 0.2573, 0.7711, 0.9185),
        "Box that fallback `vipergpt` answers for task `ground`, in fractions of the image.",
        allowed="x0, y0, x1, y1 from 0 to 1", cli=False, http=False)
    # fmt: on
    own: Mapping[str, Settings] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        box = self.average_box
        if len(box) != 4 or not (0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1):
            raise UsageError(
                f"average_box is {box!r}; expected x0, y0, x1, y1 with "
                "0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1"
            )

    def of(self, kind: type[_S]) -> _S:
        """Return a strategy's settings; the default ones if none are set."""
        return next((own for own in self.own.values() if isinstance(own, kind)), kind())

    def changed(self, **values: Any) -> RunSettings:
        """Return a copy with other values, including those of single strategies.

        Raises:
            UnknownNameError: no setting has that name, or a value is not among its choices.
            UsageError: a number is out of range.
        """
        settings = all_settings()
        changes: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, value in values.items():
            if name not in settings:
                raise UnknownNameError("setting", name, settings)
            changes[settings[name].strategy][name] = value
        common = changes.pop("", {})
        own = dict(self.own)
        for strategy, changed in changes.items():
            kind = strategy_settings()[strategy]
            own[strategy] = replace(own.get(strategy, kind()), **changed)
            if own[strategy] == kind():
                del own[strategy]
        return replace(self, **common, own=own)

    def flat(self, strategy: str = "") -> dict[str, Any]:
        """Return the values by name, with those of the shipped strategies and of ``strategy``."""
        values = {item.name: getattr(self, item.name) for item in declared_settings(RunSettings)}
        for name, kind in strategy_settings().items():
            if name in STRATEGIES or name in self.own or name == strategy:
                values |= dataclasses.asdict(self.own.get(name, kind()))
        return values


def all_settings() -> Mapping[str, Setting]:
    """Return every setting by name, those of installed strategies last.

    Raises:
        UsageError: two settings have the same name.
    """
    return _by_name(tuple(strategy_settings().items()))


def shipped_settings() -> Mapping[str, Setting]:
    """Return the settings of this package by name, without a look at installed packages."""
    return _by_name(tuple(strategy_settings(STRATEGIES).items()))


def strategy_settings(names: Iterable[str] | None = None) -> dict[str, type[Settings]]:
    """Return the classes of settings by strategy, for strategies that have their own.

    Args:
        names: the strategies; None for all that are installed.
    """
    names = strategy_names() if names is None else names
    return {name: kind for name in names if (kind := settings_class(name)) is not None}


@cache
def _by_name(classes: tuple[tuple[str, type[Settings]], ...]) -> Mapping[str, Setting]:
    by_name = {item.name: item for item in declared_settings(RunSettings)}
    for strategy, kind in classes:
        for item in declared_settings(kind, strategy):
            if item.name in by_name:
                other = by_name[item.name].strategy
                raise UsageError(
                    f"strategy {strategy}: the setting {item.name} is declared by "
                    f"{f'strategy {other}' if other else 'every run'} already; name it otherwise"
                )
            by_name[item.name] = item
    return MappingProxyType(by_name)
