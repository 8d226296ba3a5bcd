"""The compact prompt for small program writers; only this module knows its format.

Training the embedded program writer and prompting it both build their text here, so the
two cannot drift apart::

    # {summary}: {name}({arguments})        one line per name of the API
    # task: {task}                          for each example, and
    # query: {query}
    # options: {a; b; c}                    only if there are options
    {program}
                                            one blank line after each example
    # task: {task}
    # failed: {kind}: {message}             only when an earlier program failed
    # query: {query}                        the query to solve; the writer goes on
    # options: {a; b; c}                    with "def execute_command("
    # plan: {1. step 2. step}               only if there is one; then examples have theirs

Every query repeats the task, although all queries share it. When the task stood only once, far
above the query, the small program writer ended one question in five as a grounding.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from viper.api.sets import ApiEntry
from viper.api.spec import render
from viper.schema import Example

# Stop string of the program writer: a blank line ends a compact program.
END_OF_PROGRAM = "\n\n"


def compact_document(
    entries: Sequence[ApiEntry],
    task: str,
    examples: Sequence[Example],
    query: str,
    options: Sequence[str] = (),
    failed: str = "",
    plan: str = "",
) -> str:
    """Return the whole prompt up to the start of the program for ``query``.

    Args:
        failed: result of :func:`compact_failure` if an earlier program failed, or "".
        plan: numbered steps, separated by newlines; if given, examples show their plans too.
    """
    example_texts = (
        compact_example(task, e.query, e.program, e.options, (e.plan or "") if plan else "")
        for e in examples
    )
    request = compact_request(task, query, options, failed, plan)
    return compact_header(entries) + "".join(example_texts) + request


def compact_header(entries: Sequence[ApiEntry]) -> str:
    """Return the lines of the API, each with its newline."""
    api_text = render(entries, "compact")
    return f"{api_text}\n" if api_text else ""


def compact_request(
    task: str, query: str, options: Sequence[str] = (), failed: str = "", plan: str = ""
) -> str:
    """Return all lines before a program: task, earlier failure, query, options, plan."""
    plan_line = f"# plan: {one_line(plan)}\n" if plan else ""
    query_lines = compact_query(in_small_letters(query), options)
    return f"# task: {task}\n{failed}{query_lines}{plan_line}"


# A capital after which a small letter follows, so that names in capitals stay.
_SENTENCE_START = re.compile(r"(?:^|[.?!:]\s+)[A-Z](?![A-Z])")


def in_small_letters(query: str) -> str:
    """Return a query whose sentences begin in lower case, and nothing in capitals if all of it is.

    To a small writer ``Which`` is another word than ``which``.
    """
    if query.isupper():
        return query.lower()
    return _SENTENCE_START.sub(lambda start: start[0].lower(), query)


def compact_query(query: str, options: Sequence[str] = ()) -> str:
    """Return the query line and, if there are options, the options line."""
    return f"# query: {one_line(query)}\n" + options_line(options)


def compact_failure(kind: str, message: str) -> str:
    """Return the line before a query that describes how an earlier program for it failed."""
    return f"# failed: {kind}: {one_line(message)}\n"


def compact_example(
    task: str, query: str, program: str, options: Sequence[str] = (), plan: str = ""
) -> str:
    """Return a solved query with the blank line that ends it."""
    request = compact_request(task, query, options, plan=plan)
    return request + compact_program(program) + END_OF_PROGRAM


def compact_program(program: str) -> str:
    """Return a program without blank lines, which would end it, and outer whitespace."""
    return "\n".join(line.rstrip() for line in program.splitlines() if line.strip())


def compact_selection(info: str, question: str, options: Sequence[str]) -> str:
    """Return the prompt whose likeliest continuation is the text of the best option."""
    return (
        f"# info: {one_line(info)}\n# question: {one_line(in_small_letters(question))}\n"
        f"{options_line(options)}# answer:"
    )


def options_line(options: Sequence[str]) -> str:
    """Return ``# options: a; b; c`` with its newline, or "" without options."""
    return f"# options: {'; '.join(map(one_line, options))}\n" if options else ""


def one_line(text: str) -> str:
    """Replace every run of whitespace by one space, so that the text cannot break the format."""
    return " ".join(text.split())
