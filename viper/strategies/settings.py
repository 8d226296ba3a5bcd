"""The settings of a run: each is declared once, here or in the package of the strategy it is for.

A declaration is a field of a dataclass with its type, default, bounds, help text, and whether the
command line and HTTP offer it. Derived from it: the check of its value, the keys of a profile's
``[run]``, keywords of ``RunOptions``, options of ``viper run`` and ``viper eval``, fields of
``POST /v1/run``, and the table in docs/profiles.md.

A strategy's own settings are a subclass of :class:`Settings`, named in the table of strategies or,
by a plug-in, as the attribute ``settings`` of its class. Names are unique over all strategies, so
that a key, an option or a field needs no prefix. Nothing heavy is imported: ``--help`` reads this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, get_type_hints

from viper.errors import UnknownNameError, UsageError
from viper.schema import (
    EXAMPLE_ORDERS,
    FALLBACKS,
    MAX_VOTES,
    PROMPT_STYLES,
    RANKERS,
    RETRIEVALS,
)
from viper.strategies import STRATEGIES, settings_class, strategy_names

MAX_TEMPERATURE = 2
MAX_TRIALS = 50
MAX_EXAMPLES = 1_000

_S = TypeVar("_S", bound="Settings")


@dataclass(frozen=True)
class Declaration:
    """What is declared of a setting beside its name, type and default.

    Attributes:
        help: a sentence with its full stop.
        section: heading of the option in ``--help``; a strategy's own settings have their own.
        least: the smallest number that is taken; None for no limit.
        most: the largest one.
        unbounded: a bound, of which 0 sets none.
        choices: the texts that are taken; empty for any.
        kind: of what a wrong choice is one, where that is not the setting's name.
        is_path: names a file, which a profile may name from its own folder.
        cli: offered on the command line; ``flag`` is the option where it is not ``--NAME``, and
            ``metavar`` what stands for the value.
        http: a field of ``POST /v1/run``. Never for what names a file: callers are strangers.
        allowed: what the documentation says is taken, where the other attributes do not tell.
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
    metavar: str = ""
    allowed: str = ""


def setting(default: Any, help_text: str, **declared: Any) -> Any:
    """Return a dataclass field that declares a setting; keywords as in :class:`Declaration`."""
    return field(default=default, metadata={"declaration": Declaration(help_text, **declared)})


class Setting(NamedTuple):
    """A setting as it was declared.

    Attributes:
        type: of its values: bool, int, float, str, or a tuple of one of them.
        strategy: the one that it is for; "" for all of them.
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
        """Return the text with the strategy in front, for lists of all settings."""
        text = self.text
        return f"{self.strategy}: {text[0].lower()}{text[1:]}" if self.strategy else text

    @property
    def option(self) -> str:
        """The option of the command line; that of a flag has a slash and its opposite."""
        if self.declaration.flag:
            return self.declaration.flag
        words = self.name.replace("_", "-")
        return f"--{words}/--no-{words}" if self.type is bool else f"--{words}"

    def check(self, value: Any) -> None:
        """Compare a value with what is declared.

        Raises:
            UnknownNameError: none of the choices.
            UsageError: a number out of range.
        """
        one = self.declaration
        for text in value if isinstance(value, tuple) else (value,):
            if one.choices and text not in one.choices:
                raise UnknownNameError(one.kind or self.name.replace("_", " "), text, one.choices)
        if one.least is None:
            return
        if one.most is not None:
            if not one.least <= value <= one.most:
                expected = f"{one.least:g} to {one.most:g}"
                raise UsageError(f"{self.name} is {value}; expected {expected}")
        elif not value >= one.least:
            expected = f"expected {one.least:g} or more"
            if one.unbounded:
                expected = "0 or more, 0 for no bound"
            raise UsageError(f"{self.name} is {value}; {expected}")


@dataclass(frozen=True)
class Settings:
    """Settings that belong together; a subclass is a frozen dataclass of :func:`setting` fields.

    Raises:
        UnknownNameError: none of a setting's choices.
        UsageError: a number out of range.
    """

    def __post_init__(self) -> None:
        for one in declared(type(self)):
            one.check(getattr(self, one.name))

    def check_files(self) -> None:
        """Read the files that the settings name, where a strategy has such.

        Raises:
            ViperError: a file that is missing or cannot be used.
        """


def declared(kind: type[Settings], strategy: str = "") -> tuple[Setting, ...]:
    """Return the settings that a class declares, in order."""
    return _declared(kind, strategy)  # type: ignore[arg-type]


@cache
def _declared(kind: Any, strategy: str) -> tuple[Setting, ...]:
    types = get_type_hints(kind)
    return tuple(
        Setting(one.name, types[one.name], one.default, one.metadata["declaration"], strategy)
        for one in dataclasses.fields(kind)
        if "declaration" in one.metadata
    )


@dataclass(frozen=True)
class RunSettings(Settings):
    """How programs are asked for and corrected, and what a strategy was told beyond that.

    ``temperature`` 0 is greedy. Asking afresh (no ``feedback``) and the bank's first examples
    (``retrieval`` ``fixed``) are what Stanić et al. 2024 (sec. 3.3) found best. ``average_box`` is
    ViperGPT's average box on a picture of 640 x 480 pixels, the usual size in RefCOCO.

    Attributes:
        own: settings of single strategies, by strategy, where they are not the default ones.

    Raises:
        UnknownNameError: a fallback, retrieval, example order, prompt style or router that there
            is not.
        UsageError: a number out of range, or an average box that is no box within the picture.
    """

    api: str = setting(
        "abstract",
        "Functions that programs may call.",
        allowed="sets and [files](extending.md), joined by `+`",
        cli=False,
    )
    trials: int = setting(
        3,
        "Maximum number of programs to write, for each vote.",
        section="Programs",
        least=1,
        most=MAX_TRIALS,
    )
    temperature: float = setting(
        0.0,
        "Temperature of the first program; 0 means greedy decoding.",
        section="Programs",
        least=0,
        most=MAX_TEMPERATURE,
    )
    retry_temperature: float = setting(
        0.4,
        "Minimum temperature of later votes and of later programs from scratch.",
        least=0,
        most=MAX_TEMPERATURE,
        cli=False,
        http=False,
    )
    feedback: bool = setting(
        False,
        "Show the failed program and its error in the request for the next program.",
        section="Programs",
        flag="--feedback/--from-scratch",
    )
    self_tune: bool = setting(
        True,
        "Lower the threshold at fault and run the same program again.",
        section="Programs",
    )
    votes: int = setting(
        1,
        f"Answer up to N times, at most {MAX_VOTES}; the most frequent answer wins.",
        section="Programs",
        least=1,
        most=MAX_VOTES,
        metavar="N",
    )
    examples: int = setting(
        4,
        "Maximum number of in-context examples in the prompt.",
        section="Examples",
        least=0,
        most=MAX_EXAMPLES,
        flag="--n-examples",
        metavar="N",
    )
    retrieval: str = setting(
        "fixed",
        "Choice of examples: fixed takes the first of the bank, the others the most similar.",
        section="Examples",
        choices=RETRIEVALS,
    )
    example_order: str = setting(
        "rising",
        "Order of the examples; rising puts the best one last, next to the query.",
        section="Examples",
        choices=EXAMPLE_ORDERS,
    )
    prompt_style: str = setting(
        "full",
        "Style of the prompt; `compact` suits small program writers.",
        choices=PROMPT_STYLES,
        cli=False,
        http=False,
    )
    max_tokens: int = setting(
        512, "Maximum length of one program in tokens.", least=1, cli=False, http=False
    )
    seed: int = setting(
        0,
        "Random seed for sampling.",
        least=-(2**31),
        most=2**31,
        allowed="a whole number",
        cli=False,
    )
    api_budget: int = setting(
        0,
        "Maximum number of tokens for the text of the API; a router then selects functions.",
        least=0,
        unbounded=True,
        cli=False,
        http=False,
    )
    router: str = setting(
        "bm25",
        "Method by which the router ranks functions.",
        choices=RANKERS,
        cli=False,
        http=False,
    )
    max_llm_calls: int = setting(
        0,
        "Maximum number of requests to the program writer for one query.",
        section="Limits",
        least=0,
        unbounded=True,
        metavar="N",
    )
    max_llm_tokens: int = setting(
        0,
        "Number of tokens for one query after which the program writer gets no request.",
        section="Limits",
        least=0,
        unbounded=True,
        metavar="N",
    )
    max_cost_usd: float = setting(
        0.0,
        "Maximum cost of one query in US dollars, if the price of the model is known.",
        section="Limits",
        least=0,
        unbounded=True,
        flag="--max-cost",
        metavar="USD",
    )
    fallback: str = setting(
        "none",
        "Source of the answer if every trial failed; such answers are marked.",
        section="Programs",
        choices=FALLBACKS,
    )
    average_box: tuple[float, ...] = setting(
        (0.0795, 0.2573, 0.7711, 0.9185),
        "Box that fallback `vipergpt` answers for task `ground`, in fractions of the image.",
        allowed="x0, y0, x1, y1 from 0 to 1",
        cli=False,
        http=False,
    )
    own: Mapping[str, Settings] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _is_fraction_box(self.average_box):
            raise UsageError(
                f"average_box is {self.average_box!r}; expected x0, y0, x1, y1 with "
                "0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1"
            )

    def of(self, kind: type[_S]) -> _S:
        """Return a strategy's settings, the default ones where none were set."""
        return next((one for one in self.own.values() if isinstance(one, kind)), kind())

    def changed(self, **values: Any) -> RunSettings:
        """Return these settings with other values, those of single strategies among them.

        Raises:
            UnknownNameError: no setting of that name, or none of its choices.
            UsageError: a number out of range.
        """
        common: dict[str, Any] = {}
        of_strategies: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            strategy = setting_named(name).strategy
            (of_strategies.setdefault(strategy, {}) if strategy else common)[name] = value
        own = dict(self.own)
        for strategy, changes in of_strategies.items():
            kind = strategy_settings()[strategy]
            own[strategy] = replace(own.get(strategy, kind()), **changes)
            if own[strategy] == kind():
                del own[strategy]
        return replace(self, **common, own=own)

    def flat(self, strategy: str = "") -> dict[str, Any]:
        """Return the values by name: those for all strategies, of the shipped ones, of this one."""
        found = {one.name: getattr(self, one.name) for one in declared(RunSettings)}
        for name, kind in strategy_settings().items():
            if name in STRATEGIES or name in self.own or name == strategy:
                found |= dataclasses.asdict(self.own.get(name, kind()))
        return found


def all_settings() -> Mapping[str, Setting]:
    """Return every setting by name, those of installed strategies last.

    Raises:
        UsageError: two settings of one name.
    """
    return _by_name(tuple(strategy_settings().items()))


def strategy_settings() -> dict[str, type[Settings]]:
    """Return the strategies that have settings of their own, with the class of them."""
    classes = {name: settings_class(name) for name in strategy_names()}
    return {name: kind for name, kind in classes.items() if kind is not None}


@cache
def _by_name(classes: tuple[tuple[str, type[Settings]], ...]) -> Mapping[str, Setting]:
    found = {one.name: one for one in declared(RunSettings)}
    for strategy, kind in classes:
        for one in declared(kind, strategy):
            if one.name in found:
                other = found[one.name].strategy
                raise UsageError(
                    f"strategy {strategy}: the setting {one.name} is declared by "
                    f"{f'strategy {other}' if other else 'every run'} already; name it otherwise"
                )
            found[one.name] = one
    return MappingProxyType(found)


def setting_named(name: str) -> Setting:
    """Return the setting of that name.

    Raises:
        UnknownNameError: listing the known ones.
    """
    known = all_settings()
    if name not in known:
        raise UnknownNameError("setting", name, known)
    return known[name]


def _is_fraction_box(box: Sequence[float]) -> bool:
    if len(box) != 4:
        return False
    x0, y0, x1, y1 = box
    return 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1
