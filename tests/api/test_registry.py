"""Registering routines, and what is refused."""

from __future__ import annotations

import pytest

from viper.api import REGISTRY, routine
from viper.api.registry import method, signature_of
from viper.errors import UnknownNameError, UsageError


def test_a_routine_is_listed_inside_the_context_only() -> None:
    with REGISTRY.temporary():

        @routine(tasks=("ground",), tool=True, api="mine")
        def shadow_of(patch: object, length: float = 2.0) -> object:
            """Shadow of a patch."""
            return patch

        found = REGISTRY.get("shadow_of")
        assert found.tool and found.visibility.apis == ("mine",) and found.receives is None
        assert "mine" in REGISTRY.apis()
        assert shadow_of(3) == 3
    with pytest.raises(UnknownNameError, match="unknown routine 'shadow_of'; known: .*distance"):
        REGISTRY.get("shadow_of")
    assert "mine" not in REGISTRY.apis()


def test_a_duplicate_raises() -> None:
    with REGISTRY.temporary(), pytest.raises(UsageError, match="'distance' is registered twice"):

        @routine(tasks=("ground",))
        def distance(a: int) -> int:
            """Something else."""
            return a


def test_annotations_and_docstring_are_required() -> None:
    with REGISTRY.temporary():
        with pytest.raises(UsageError, match="'untyped' lacks annotations: b, return"):

            @routine(tasks=("ground",))
            def untyped(a: int, b):  # noqa: ANN001, ANN202
                """Add."""

        with pytest.raises(UsageError, match="'silent' lacks a docstring"):

            @routine(tasks=("ground",))
            def silent(a: int) -> int:
                return a

        with pytest.raises(UsageError, match="lacks a docstring"):

            @method(("ground",))
            def quiet(self: object) -> int:
                return 1

        with pytest.raises(UnknownNameError, match="unknown task 'grund'"):

            @routine(tasks=("grund",))
            def misplaced(a: int) -> int:
                """Add."""
                return a


def test_signature_hides_what_programs_do_not_pass() -> None:
    found = REGISTRY.get("best_image_match")
    assert found.receives == "call"
    parameters, returns = signature_of(found.function, found.visibility.hide)
    assert [(p.name, p.default, p.hidden) for p in parameters] == [
        ("list_patches", None, False),
        ("content", None, False),
        ("return_index", "False", True),
    ]
    assert returns == "ImagePatch | int | None"
