"""Motion of a clip's objects: a random script of events, turned into trajectories.

A script is a list of :class:`Motion`, one every few frames. :func:`perform` searches for directions
and speeds that realise it (a motion that must end in a hit reaches its target on time) and gives up
if there are none; the caller then draws another script. Motion is straight and of constant speed
between events, so starts and stops are sharp. Times are frames, lengths table units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
from numpy.typing import NDArray

from viper_lab.world.events import is_consequence
from viper_lab.world.scene import CLIP_FRAMES, ClipEvent

# The clip table reaches from ``-TABLE_HALF`` to ``+TABLE_HALF`` along each axis.
TABLE_HALF_X, TABLE_HALF_Y = 3.9, 2.6

# Apparent speed in table units per frame; motion away from the camera looks shorter.
MIN_SPEED, MAX_SPEED = 0.1, 0.46

DEPTH_FORESHORTENING = 0.63
SLOT_FRAMES = 7
WINDOW_FRAMES = 5
GRAVITY = 0.11
DROP_HEIGHT = 2.6
DROP_FRAMES = 4
GONE_BELOW = -3.0

# State of an object after a motion of its own.
_STATE_AFTER = {
    "start": "moving",
    "hit": "moving",
    "stop": "resting",
    "appear": "resting",
    "fall": "gone",
}

Vector = NDArray[np.float64]


class ScriptImpossibleError(Exception):
    """This script cannot be performed from this layout; draw another one."""


def _impossible_if(failed: bool | np.bool_) -> None:
    if failed:
        raise ScriptImpossibleError


@dataclass(frozen=True)
class Motion:
    """``actor`` does ``kind`` at ``frame`` (its anchor, see :func:`window_of`)."""

    kind: str
    frame: int
    actor: int
    target: int | None = None


@dataclass
class _Track:
    """An object's position, ``position + velocity * (frame - since)``, and its past positions."""

    position: Vector
    velocity: Vector = field(default_factory=lambda: np.zeros(2))
    since: int = 0
    shown_from: int = 0
    falls_at: int | None = None
    rows: list[tuple[int, Vector, Vector]] = field(default_factory=list)

    def at(self, frame: float) -> Vector:
        return self.position + self.velocity * (frame - self.since)

    def set_motion(self, frame: int, velocity: Vector) -> None:
        """Set the velocity from ``frame`` on, starting at the object's position then."""
        self.position = self.at(frame)
        self.velocity, self.since = velocity, frame
        self.rows.append((frame, self.position, velocity))


def window_of(kind: str, frame: int) -> tuple[int, int]:
    """Return the frames ``[start, end)`` in which an event with that anchor is visible.

    The anchor of a start is the first frame after a move, of a stop the first without one, of a hit
    the frame of contact, of an appearance the first frame of presence, of a fall the first past the
    edge.
    """
    before = {"start": 1, "stop": 3, "hit": 2, "appear": 0, "fall": 1}[kind]
    first = max(0, frame - before)
    return first, min(CLIP_FRAMES, frame - before + WINDOW_FRAMES)


def apparent_speed(velocity: Vector) -> float:
    """Return the visible speed of a motion on the table, in table units per frame."""
    return math.hypot(velocity[0], DEPTH_FORESHORTENING * velocity[1])


def draw_script(random: Random, count: int) -> tuple[list[Motion], set[int]]:
    """Draw a script for ``count`` objects, and the set of those that move from the first frame on.

    No object does the same kind twice, and at least one does two kinds. Starts that a hit causes
    are not in the script.

    Raises:
        ScriptImpossibleError: the draw failed.
    """
    first = random.randrange(count) if random.random() < 0.4 else None
    states = {
        i: "moving" if i == first else "absent" if random.random() < 0.25 else "resting"
        for i in range(count)
    }
    if set(states.values()) == {"absent"}:
        states[0] = "resting"
    used: set[tuple[str, int]] = set()
    steps: list[Motion] = []
    slots = random.choice((2, 3, 3, 4, 4))
    spare = CLIP_FRAMES - 6 - SLOT_FRAMES * (slots - 1)
    offsets = sorted(random.randint(0, spare - 1) for _ in range(slots))
    for slot, offset in enumerate(offsets):
        frame = 3 + offset + slot * SLOT_FRAMES
        step = _draw_step(random, frame, states, used)
        steps.append(step)
        used.add((step.kind, step.actor))
        states[step.actor] = _STATE_AFTER[step.kind]
        knocked = ("start", step.target)
        if step.target is not None and knocked not in used and random.random() < 0.75:
            states[step.target] = "moving"
            used.add(("start", step.target))
            steps.append(Motion("start", frame + 1, step.target))
    busiest = max(sum(step.actor == i for step in steps) for i in range(count))
    _impossible_if("absent" in states.values() or busiest < 2)
    first_kinds = {step.actor: step.kind for step in reversed(steps)}
    return steps, {i for i in range(count) if first_kinds.get(i) in ("stop", "hit", "fall")}


def _draw_step(
    random: Random, frame: int, states: Mapping[int, str], used: set[tuple[str, int]]
) -> Motion:
    absent, resting, moving = (
        [i for i, state in states.items() if state == sort]
        for sort in ("absent", "resting", "moving")
    )
    choices = [(2.0, Motion("appear", frame, i)) for i in absent]
    choices += [(1.0, Motion("start", frame, i)) for i in resting]
    for i in moving:
        choices += [(1.0, Motion("stop", frame, i)), (1.6, Motion("fall", frame, i))]
        choices += [(2.0, Motion("hit", frame, i, j)) for j in resting]
    choices = [(w, step) for w, step in choices if (step.kind, step.actor) not in used]
    _impossible_if(not choices)
    return random.choices([s for _, s in choices], [w for w, _ in choices])[0]


def perform(
    random: Random, script: tuple[Sequence[Motion], set[int]], sizes: Sequence[tuple[float, float]]
) -> tuple[NDArray[np.float32], tuple[ClipEvent, ...]]:
    """Return trajectories and events of a script.

    Args:
        random: source of all choices.
        script: result of :func:`draw_script`.
        sizes: radius and height at rest of each object.

    Returns:
        Positions ``float32 [T, N, 3]`` (NaN while an object is absent) and
        the events, sorted by start.

    Raises:
        ScriptImpossibleError: no layout was found; objects would touch or leave the table.
    """
    steps, first_moving = script
    radii = [radius for radius, _ in sizes]
    play = _Performance(random, steps, radii, _layout(random, radii))
    for i in first_moving:
        play.set_off(i, 0)
    for step in steps:
        play.carry_out(step)
    positions = _positions(play.tracks, [height for _, height in sizes])
    play.check_tracks(positions)
    play.check_gaps(positions)
    events = [ClipEvent(s.kind, s.actor, *window_of(s.kind, s.frame), s.target) for s in steps]
    events.sort(key=lambda event: (event.start, event.end))
    own = [event for event in events if not is_consequence(event, events)]
    for event in events:
        later = own if event in own else [e for e in own if e.start > event.start]
        _impossible_if(
            any(e is not event and e.start < event.end and event.start < e.end for e in later)
        )
    return positions, tuple(events)


def _layout(random: Random, radii: Sequence[float]) -> list[_Track]:
    tracks: list[_Track] = []
    for radius in radii:
        x = random.uniform(-TABLE_HALF_X + radius, TABLE_HALF_X - radius)
        y = random.uniform(-TABLE_HALF_Y + radius, TABLE_HALF_Y - radius)
        _impossible_if(any(np.hypot(*(t.position - (x, y))) < radius + 0.6 for t in tracks))
        tracks.append(_Track(np.array([x, y])))
    return tracks


@dataclass(frozen=True)
class _Performance:
    """The tracks of the objects while the steps of a script are carried out."""

    random: Random
    steps: Sequence[Motion]
    radii: Sequence[float]
    tracks: Sequence[_Track]

    def carry_out(self, step: Motion) -> None:
        track = self.tracks[step.actor]
        if step.kind == "start":
            if not self.is_knocked(step.actor):
                self.set_off(step.actor, step.frame - 1)
        elif step.kind == "stop":
            track.set_motion(step.frame - 1, np.zeros(2))
        elif step.kind == "appear":
            track.shown_from = step.frame
        elif step.kind == "fall":
            track.falls_at = step.frame
        elif step.target is not None:
            self.collide(step, self.tracks[step.target])

    def is_knocked(self, actor: int) -> bool:
        """Return whether a hit causes the start of an object, which no other motion ever does."""
        starts = [s.frame for s in self.steps if (s.kind, s.actor) == ("start", actor)]
        return any(s.target == actor and s.frame + 1 in starts for s in self.steps)

    def end_of_motion(self, actor: int, frame: int) -> Motion | None:
        return next((s for s in self.steps if s.actor == actor and s.frame > frame + 1), None)

    def set_off(self, actor: int, frame: int) -> None:
        """Choose a velocity from ``frame`` on that leads to the scripted end of this motion."""
        end = self.end_of_motion(actor, frame)
        here = self.tracks[actor].at(frame)
        if end is not None and end.kind == "hit" and end.target is not None:
            way = self.tracks[end.target].at(end.frame) - here
            distance = float(np.hypot(*way)) - (self.radii[actor] + self.radii[end.target])
            velocity = way / np.hypot(*way) * distance / (end.frame - frame)
            _impossible_if(distance <= 0)
        elif end is not None and end.kind == "fall":
            velocity = _towards_edge(self.random, here) / (end.frame - 0.5 - frame)
        else:
            angle = self.random.uniform(0, 2 * math.pi)
            direction = np.array([math.cos(angle), math.sin(angle)])
            velocity = direction * self.random.uniform(0.11, 0.4)
        self.tracks[actor].set_motion(frame, velocity)

    def collide(self, step: Motion, target: _Track) -> None:
        """Push the target on while the actor follows slowly, or let the actor bounce off it."""
        assert step.target is not None
        actor, random = self.tracks[step.actor], self.random
        velocity = actor.velocity
        if not self.is_knocked(step.target):
            actor.set_motion(step.frame, -velocity * random.uniform(0.5, 0.8))
            return
        turn = random.uniform(-0.25, 0.25)
        rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
        passed_on = rotation @ velocity * random.uniform(0.8, 1.0)
        end = self.end_of_motion(step.target, step.frame)
        _impossible_if(end is not None and end.kind == "hit")
        if end is not None and end.kind == "fall":
            frames = end.frame - 0.5 - step.frame
            passed_on = _speed_to_fall(target.at(step.frame), passed_on, frames)
        actor.set_motion(step.frame, velocity * random.uniform(0.35, 0.5))
        target.set_motion(step.frame, passed_on)

    def check_tracks(self, positions: NDArray[np.float32]) -> None:
        """Check that speeds are clear and that objects leave the table exactly in their falls."""
        half = np.array([TABLE_HALF_X, TABLE_HALF_Y])
        for i, track in enumerate(self.tracks):
            for frame, _, velocity in track.rows:
                moving = bool(velocity.any()) and frame < CLIP_FRAMES - 1
                _impossible_if(moving and not MIN_SPEED <= apparent_speed(velocity) <= MAX_SPEED)
            fall = track.falls_at
            here = positions[track.shown_from : fall, i, :2]
            margin = self.radii[i] if fall is None else 0.0
            _impossible_if((np.abs(here) > half - margin).any())
            _impossible_if(fall is not None and (np.abs(positions[fall, i, :2]) <= half).all())

    def check_gaps(self, positions: NDArray[np.float32]) -> None:
        """Check that objects keep their distance, and touch exactly at scripted hits."""
        contacts = {frozenset((s.actor, s.target)): s.frame for s in self.steps if s.kind == "hit"}
        for i in range(len(self.radii)):
            for j in range(i):
                gap = np.linalg.norm(positions[:, i, :2] - positions[:, j, :2], axis=-1)
                gap -= self.radii[i] + self.radii[j]
                contact = contacts.get(frozenset((i, j)))
                if contact is None:
                    _impossible_if((gap < 0.25).any())
                else:
                    away = np.abs(np.arange(CLIP_FRAMES) - contact) > 2
                    touch = abs(gap[contact]) < 0.03
                    _impossible_if(not touch or (gap[away] < 0.05).any() or (gap < -0.03).any())


def _towards_edge(random: Random, here: Vector) -> Vector:
    """Return a way to the left, right or front edge (the back edge would hide the fall)."""
    edge = random.choice(("left", "right", "front"))
    if edge == "front":
        return np.array([random.uniform(-0.6, 0.6), -TABLE_HALF_Y - here[1]])
    x = TABLE_HALF_X if edge == "right" else -TABLE_HALF_X
    return np.array([x - here[0], random.uniform(-0.8, 0.8)])


def _speed_to_fall(here: Vector, velocity: Vector, frames: float) -> Vector:
    half = np.array([TABLE_HALF_X, TABLE_HALF_Y])
    with np.errstate(divide="ignore"):
        times = (np.sign(velocity) * half - here) / velocity
    _impossible_if(times[1] < times[0] and velocity[1] > 0)
    return velocity * float(times.min()) / frames


def _positions(tracks: Sequence[_Track], rest_heights: Sequence[float]) -> NDArray[np.float32]:
    positions = np.full((CLIP_FRAMES, len(tracks), 3), np.nan, np.float32)
    frames = np.arange(CLIP_FRAMES, dtype=np.float32)
    for i, track in enumerate(tracks):
        here = positions[:, i]
        here[:] = (*(track.rows[0][1] if track.rows else track.position), rest_heights[i])
        for since, origin, velocity in track.rows:
            here[since:, :2] = origin + (frames[since:, None] - since) * velocity
        if track.shown_from:
            done = np.minimum((frames - track.shown_from) / DROP_FRAMES, 1)
            here[:, 2] += DROP_HEIGHT * (1 - done**2)
            here[: track.shown_from] = np.nan
        if track.falls_at is not None:
            falling = np.maximum(frames - track.falls_at + 0.5, 0)
            here[:, 2] -= GRAVITY * falling**2
            here[here[:, 2] < GONE_BELOW] = np.nan
    return positions
