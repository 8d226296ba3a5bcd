"""Prompt text of an API, rendered from its code.

``compact`` is one line per name, for small program writers. ``full`` is Python stubs with
docstrings and worked examples, for large ones. A :class:`Listing` decides what chat prompts print.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from viper.api.registry import Parameter, signature_of
from viper.api.sets import OWNERS, ApiEntry

Detail = Literal["full", "compact"]

_INDENT = "    "

_CLASSES = tuple(owner.__name__ for owner in OWNERS)


@dataclass(frozen=True)
class Listing:
    """The form in which the prompts of a profile print its API.

    Attributes:
        common: the names in the system message, the same for every query, so that endpoints can
            cache it; empty puts all names of a query there. The user's message holds the others.
        missing: names of the API whose role no model has; lines of advice that mention one are
            left out.
        whole: print worked examples too, and all names of the query in the system message.
        facts: what the profile says about its models; chat prompts show it.
    """

    common: tuple[ApiEntry, ...] = ()
    missing: frozenset[str] = frozenset()
    whole: bool = False
    facts: str = ""

    def texts(self, entries: Sequence[ApiEntry]) -> tuple[str, str]:
        """Return the API of the system message and the section on further names of a query."""
        if self.whole:
            return render(entries), ""
        common = self.common or tuple(entries)
        shown = [replace(each, example="") for each in dict.fromkeys((*common, *entries))]
        api, further = render(shown[: len(common)]), shown[len(common) :]
        names = render(further, owners={entry.owner for entry in further})
        section = f"## Further names for this query\n\n```python\n{names}\n```\n\n"
        return api, section if further else ""

    def advice(self, text: str) -> str:
        """Return a text without the lines that mention a missing name as code."""
        lines, names = text.splitlines(keepends=True), re.compile(r"`(\w+)")
        return "".join(each for each in lines if self.missing.isdisjoint(names.findall(each)))


# All names of a query in the system message.
UNSHARED = Listing()


def render(
    entries: Sequence[ApiEntry], detail: Detail = "full", owners: Collection[str | None] = _CLASSES
) -> str:
    """Return the API text of a prompt, without a final newline; "" for no entries.

    Args:
        owners: classes that may be printed; a system message has described the others.
    """
    if detail == "compact":
        return "\n".join(compact_line(entry) for entry in entries)
    full = [entry for entry in entries if not entry.brief]
    # The classes that an entry belongs to or mentions in a parameter or result.
    types = [[e.owner or "", e.returns, *(p.annotation for p in e.parameters)] for e in full]
    mentioned = "\n".join(itertools.chain(*types))
    classes = [each for each in OWNERS if each.__name__ in mentioned and each.__name__ in owners]
    blocks = [_class_text(owner, full) for owner in classes]
    blocks += [_stub(entry) for entry in full if entry.owner is None]
    brief = [brief_line(entry) for entry in entries if entry.brief]
    if brief:
        blocks.append("\n".join(["# Also there:", *brief]))
    return "\n\n\n".join(blocks)


def entry_text(entry: ApiEntry, detail: Detail) -> str:
    """Return the text that one name adds to a prompt, without the class of a method."""
    return compact_line(entry) if detail == "compact" else _stub(entry)


def compact_line(entry: ApiEntry, owner: str = "") -> str:
    """Return ``# {summary}: {name}({arguments})``."""
    return f"# {entry.summary}: {owner}{entry.name}({entry.arguments})"


def brief_line(entry: ApiEntry) -> str:
    """Return the compact line with the class of a method, because no stub shows the class here."""
    return compact_line(entry, f"{entry.owner}." if entry.owner else "")


def api_hash(entries: Iterable[ApiEntry]) -> str:
    """Return twelve hex digits that change whenever the full text of the entries changes."""
    return hashlib.sha256(render(tuple(entries), "full").encode()).hexdigest()[:12]


def _class_text(owner: type, entries: Sequence[ApiEntry]) -> str:
    parameters, _ = signature_of(owner.__init__)  # type: ignore[misc]
    parts = [f"class {owner.__name__}:", _docstring(inspect.getdoc(owner) or ""), ""]
    constructor = _signature("__init__", parameters, "None", is_method=True)
    body = _docstring(inspect.getdoc(owner.__init__) or "")  # type: ignore[misc]
    parts.append(textwrap.indent(f"{constructor}\n{body}", _INDENT))
    for entry in entries:
        if entry.owner == owner.__name__:
            parts += ["", textwrap.indent(_stub(entry), _INDENT)]
    return "\n".join(parts)


def _stub(entry: ApiEntry) -> str:
    """Return one ``def`` with its docstring, which ends with the example."""
    text = entry.docstring
    if entry.example:
        text += "\n\nExample:\n" + textwrap.indent(entry.example, _INDENT)
    is_method = entry.owner is not None
    signature = _signature(entry.name, entry.parameters, entry.returns, is_method)
    return f"{signature}\n{_docstring(text)}"


def _signature(name: str, parameters: Sequence[Parameter], returns: str, is_method: bool) -> str:
    arguments = ["self"] if is_method else []
    for parameter in parameters:
        default = f" = {parameter.default}" if parameter.default is not None else ""
        arguments.append(f"{parameter.name}: {parameter.annotation}{default}")
    return f"def {name}({', '.join(arguments)}) -> {returns}:"


def _docstring(text: str) -> str:
    quoted = f'"""{text}"""' if "\n" not in text else f'"""{text}\n"""'
    return textwrap.indent(quoted, _INDENT)
