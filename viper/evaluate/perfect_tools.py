"""Tools that make no mistake, for samples whose scene is known: those of the embedded world."""

from __future__ import annotations

from collections.abc import Iterable

from viper.data.sample import Sample
from viper.data.world import WorldMedia
from viper.evaluate.awareness import PerfectTools, ToolsOf
from viper.tuning.agent.workflow import Workflow
from viper.world.knowing import KnowingTools
from viper.world.layout import sample_scene
from viper.world.render import render_scene


def perfect_tools(samples: Iterable[Sample]) -> ToolsOf | None:
    """Finds the tools of a workflow of one of these samples; None where nobody has any."""
    known = {one.sample_id: one for one in samples}
    if not all(isinstance(one.load, WorldMedia) for one in known.values()):
        return None

    def tools_of(workflow: Workflow) -> PerfectTools | None:
        sample = known.get(workflow.id)
        media = sample.load if sample is not None else None
        if not isinstance(media, WorldMedia) or media.is_clip:
            return None
        scene = render_scene(sample_scene(media.split, media.index))
        return KnowingTools([scene], workflow.query.text, str(workflow.label))

    return tools_of
