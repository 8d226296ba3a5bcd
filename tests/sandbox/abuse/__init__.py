"""Programs that try to get out of the sandbox, in sixteen classes; see :mod:`.case`."""

from __future__ import annotations

from tests.sandbox.abuse import (
    attribute_walks,
    c_helpers,
    class_tricks,
    dunder_strings,
    exceptions,
    format_strings,
    frames,
    guard_shadowing,
    imports,
    numpy_arrays,
    resources,
    standard_modules,
    system_calls,
    tool_calls,
    visual_api,
    wire_frames,
)
from tests.sandbox.abuse.case import Case

LANGUAGE_CASES: tuple[Case, ...] = (
    *attribute_walks.CASES,
    *dunder_strings.CASES,
    *format_strings.CASES,
    *frames.CASES,
    *exceptions.CASES,
    *imports.CASES,
    *guard_shadowing.CASES,
    *class_tricks.CASES,
    *c_helpers.CASES,
    *numpy_arrays.CASES,
    *visual_api.CASES,
    *standard_modules.CASES,
)
"""Attempts on the rules of the language."""

OTHER_CASES: tuple[Case, ...] = (
    *resources.CASES,
    *tool_calls.CASES,
    *wire_frames.CASES,
    *system_calls.CASES,
)
"""Attempts on the limits, the parent and the kernel."""

CASES = LANGUAGE_CASES + OTHER_CASES
