"""The compact prompt, for small writers: the one place that knows its format.

Training the embedded writer and prompting it both build their text here, so the
two cannot drift apart::

    # {summary}: {name}({arguments})        one line a name of the API
    # task: {task}                          for each example, and
    # query: {query}
    # options: {a; b; c}                    only where there are options
    {program}
                                            one blank line after each example
    # task: {task}
    # failed: {kind}: {message}             only when an earlier program failed
    # query: {query}                        the query to solve; the writer goes on
    # options: {a; b; c}                    with "def execute_command("
    # plan: {1. step 2. step}               only where there is one; then examples have theirs

The task stands before every query, though it is the same for all: said once, far above the query,
it was lost on the small writer, which then ended one question in five as a grounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from viper.api.sets import ApiEntry
from viper.api.spec import render

END_OF_PROGRAM = "\n\n"
"""A blank line ends a compact program: the stop string of the writer."""


class Demonstration(Protocol):
    """What an example shows; :class:`viper.schema.Example` is one."""

    @property
    def query(self) -> str: ...
    @property
    def program(self) -> str: ...
    @property
    def options(self) -> Sequence[str]: ...
    @property
    def plan(self) -> str | None: ...


def compact_document(
    entries: Sequence[ApiEntry],
    task: str,
    examples: Sequence[Demonstration],
    query: str,
    options: Sequence[str] = (),
    failed: str = "",
    plan: str = "",
) -> str:
    """The whole prompt up to where the program of ``query`` begins.

    Args:
        failed: of :func:`compact_failure`, where an earlier program failed.
        plan: numbered steps, one a line; with one, examples that have a plan show theirs.
    """
    shown = (
        compact_example(task, e.query, e.program, e.options, (e.plan or "") if plan else "")
        for e in examples
    )
    asked = compact_asked(task, query, options, failed, plan)
    return compact_header(entries) + "".join(shown) + asked


def compact_header(entries: Sequence[ApiEntry]) -> str:
    """API lines, each with its newline."""
    api_text = render(entries, "compact")
    return f"{api_text}\n" if api_text else ""


def compact_asked(
    task: str, query: str, options: Sequence[str] = (), failed: str = "", plan: str = ""
) -> str:
    """All lines before a program: task, how an earlier program failed, query, options, plan."""
    planned = f"# plan: {one_line(plan)}\n" if plan else ""
    return f"# task: {task}\n{failed}{compact_query(query, options)}{planned}"


def compact_query(query: str, options: Sequence[str] = ()) -> str:
    """The query line and, where there are options, the options line."""
    return f"# query: {one_line(query)}\n" + options_line(options)


def compact_failure(kind: str, message: str) -> str:
    """The line before a query that says how an earlier program for it failed."""
    return f"# failed: {kind}: {one_line(message)}\n"


def compact_example(
    task: str, query: str, program: str, options: Sequence[str] = (), plan: str = ""
) -> str:
    """A solved query with the blank line that ends it."""
    asked = compact_asked(task, query, options, plan=plan)
    return asked + compact_program(program) + END_OF_PROGRAM


def compact_program(program: str) -> str:
    """A program without blank lines and outer whitespace (a blank line would end it)."""
    return "\n".join(line.rstrip() for line in program.splitlines() if line.strip())


def compact_selection(info: str, question: str, options: Sequence[str]) -> str:
    """The prompt after which the text of the best option is the likeliest."""
    return (
        f"# info: {one_line(info)}\n# question: {one_line(question)}\n"
        f"{options_line(options)}# answer:"
    )


def options_line(options: Sequence[str]) -> str:
    """``# options: a; b; c`` with its newline, or "" without options."""
    return f"# options: {'; '.join(map(one_line, options))}\n" if options else ""


def one_line(text: str) -> str:
    """Text with every run of whitespace as one space, so that it cannot break the format."""
    return " ".join(text.split())
