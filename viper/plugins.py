"""Plug-ins that installed packages register as entry points.

The groups are ``viper.backends``, ``viper.commands``, ``viper.datasets``, ``viper.demo_scenes``,
``viper.exact_inputs``, ``viper.learning_data``, ``viper.metrics``, ``viper.routines`` and
``viper.strategies``. The laboratory, ``viper_lab``, reaches the product through them as any plug-in
does.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec

from viper.errors import UsageError


def entry_points_of(group: str, kind: str, shipped: Collection[str] = ()) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without those of uninstalled packages.

    Args:
        kind: name of the group's entries in error messages, such as ``data set``.
        shipped: names that this package defines itself.

    Raises:
        UsageError: two packages, or this package and another, use the same name.
    """
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        if find_spec(point.module.partition(".")[0]) is None:
            continue
        if point.name in shipped or points.get(point.name, point) != point:
            owner = "viper" if point.name in shipped else points[point.name].value
            raise UsageError(
                f"the {kind} {point.name!r} of {point.value} is taken by {owner}; "
                "uninstall one of the packages or rename it"
            )
        points[point.name] = point
    return points
