"""What of a program's namespace the prelude may look up by name."""

from __future__ import annotations

import pytest

from viper.sandbox.calls import Variables
from viper.sandbox.prepass import hidden

NAMESPACE = {
    "ANSWER0": "yes",
    hidden("_own"): 1,
    "__builtins__": {"open": open},
    "_getattr_": getattr,
    "__name__": "__main__",
    hidden("__name__"): "__main__",
}


def test_names_are_those_of_the_author() -> None:
    variables = Variables(NAMESPACE)
    assert variables["ANSWER0"] == "yes" and variables["_own"] == 1
    assert set(variables) == {"ANSWER0", "_own", "__name__"} and len(variables) == 3


@pytest.mark.parametrize("name", ["__builtins__", "_getattr_", hidden("_own"), "open", ""])
def test_guards_and_builtins_are_out_of_reach(name: str) -> None:
    assert name not in Variables(NAMESPACE)
    with pytest.raises(KeyError):
        Variables(NAMESPACE)[name]


def test_it_follows_the_program_and_changes_nothing() -> None:
    space: dict[str, object] = {}
    variables = Variables(space)
    space["X"] = 2
    assert variables["X"] == 2
    assert not hasattr(variables, "__setitem__")
