"""``viper eval --engine ray``: its options, and how they become actors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.correction_options import OF_THE_PROFILE
from viper.commands.options import open_profile

if TYPE_CHECKING:
    from viper.data.sample import Sample
    from viper.evaluate.engines.ray import RayEngine
    from viper.evaluate.engines.ray_actor import Built
    from viper.evaluate.evaluation import Evaluation
    from viper.evaluate.runs.manifest import Manifest
    from viper.profiles.wiring import Profile

_OF_A_PROFILE = (
    *("profile", "sandbox", "offline", "api", "max_memory_gb", "state", "examples"),
    *OF_THE_PROFILE,
)


def ray_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--actors --gpus-per-actor --cpus-per-actor --ray-address``."""
    for option in (
        click.option("--actors", type=click.IntRange(1, 1024), default=2, show_default=True,
                     help="With --engine ray: how many reasoners."),
        click.option("--gpus-per-actor", type=click.FloatRange(0), metavar="N",
                     help="0.5: two on one GPU; 0: none. By default GPUs are divided evenly."),
        click.option("--cpus-per-actor", type=click.FloatRange(0, min_open=True), metavar="N",
                     help="Also the threads its models compute with. By default divided evenly."),
        click.option("--ray-address", envvar="RAY_ADDRESS", metavar="ADDRESS",
                     help="auto, or HOST:PORT of a cluster. By default a Ray of its own."),
    ):  # fmt: skip
        command = option(command)
    return command


def profile_of(given: Mapping[str, Any]) -> Profile:
    """The profile that the options of ``viper eval`` name, with its examples or without."""
    profile = open_profile(given)
    return profile if given["examples"] else profile.without_examples()


@dataclass(frozen=True)
class ProfileRecipe:
    """Makes the reasoner of these options, see :data:`viper.evaluate.engines.ray_actor.Recipe`."""

    given: Mapping[str, Any]

    def __call__(self) -> Built:
        profile = profile_of(self.given)
        from viper.evaluate.engines.ray_actor import Built
        from viper.reasoner import Reasoner
        from viper.schema import to_json

        return Built(Reasoner(profile, preload=False), to_json(profile.document))


def _told(which: str) -> None:
    click.echo(
        f"viper: warning: an actor died ({which}); what it had under way is done again", err=True
    )


@contextmanager
def on_ray(
    evaluation: Evaluation, samples: list[Sample], given: Mapping[str, Any]
) -> Iterator[tuple[RayEngine, Manifest]]:
    """An engine of Ray actors, one of which has told what stands in the manifest.

    Raises:
        MissingExtraError: the package ``ray`` is not installed.
        UsageError, ModelError: no Ray, no room, or an actor that cannot begin.
    """
    from viper.commands.progress import status
    from viper.evaluate.engines.ray import RayEngine
    from viper.evaluate.engines.ray_actor import Orders
    from viper.evaluate.engines.ray_cluster import connected, local_cpus, share_of
    from viper.evaluate.engines.ray_crew import Crew, run_manifest

    profile_of(given)  # a wrong name or file shows before Ray is started
    actors, wanted = given["actors"], given["cpus_per_actor"]
    with connected(given["ray_address"], local_cpus(actors, wanted)) as nodes:
        share = share_of(nodes, actors, wanted, given["gpus_per_actor"])
        recipe = ProfileRecipe({name: given[name] for name in _OF_A_PROFILE})
        orders = Orders(
            recipe,
            evaluation,
            str(Path.cwd()),
            given["workers"],
            max(1, int(share.cpus)),
            bool(share.gpus),
        )
        crew = Crew(orders, share, actors)
        try:
            with status("starting actors"):
                execution = {name: given[name] for name in ("engine", "workers", "budget_usd")}
                shared = {"cpus_per_actor": share.cpus, "gpus_per_actor": share.gpus}
                manifest = run_manifest(
                    crew.manifest(), evaluation, samples, {**execution, "actors": actors, **shared}
                )
                crew.expect(manifest)
            yield RayEngine(crew, given["workers"], _told), manifest
        except BaseException:
            crew.kill()
            raise
        crew.close()
