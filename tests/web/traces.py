"""Traces of the fake bench, for pages."""

from __future__ import annotations

from tests.strategies.bench import Bench, picture
from viper.api.library import Library
from viper.models.media import Media
from viper.reasoner import RunOptions
from viper.run_result import RunResult
from viper.schema import Trace
from viper.strategies.replay import Replayer
from viper.web.trace_page import Extras, replay_all, trace_page

COLOURS = """def execute_command(image):
    said = []
    for patch in ImagePatch(image).find('cube'):
        said.append(patch.simple_query('what color is this?'))
    depth = patch.compute_depth()
    print('looked at', len(said))
    return said[0]
"""
FAINT = "def execute_command(image):\n    return ImagePatch(image).find('faint ball')[0]\n"
BROKEN = "def execute_command(image):\n    return nonsense\n"
EVENT = """def execute_command(video, question, possible_answers):
    part = VideoSegment(video).get_video_segment_of_event('the cube stops')
    frame = part.frame_from_index(0)
    return possible_answers[0]
"""


def asked(*programs: str, media: object = None, query: str = "?", **options: object) -> RunResult:
    """What the bench answers with these programs."""
    with Bench(list(programs), trials=max(1, len(programs))) as bench:
        given = RunOptions(**options)  # type: ignore[arg-type]
        return bench.reasoner.run(picture() if media is None else media, query, given)


def page(trace: Trace, media: Media, extras: Extras | None = None) -> str:
    """The page of a trace."""
    with Replayer(Library()) as replayer:
        return trace_page(trace, media, replay_all(trace, media, replayer), extras or Extras())
