"""What a program calls, read from its text."""

from __future__ import annotations

import ast


def called_names(program: str) -> set[str]:
    """Names of the functions and methods that a program calls; none where it does not parse."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError):
        return set()
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    functions = {call.id for call in calls if isinstance(call, ast.Name)}
    return functions | {call.attr for call in calls if isinstance(call, ast.Attribute)}
