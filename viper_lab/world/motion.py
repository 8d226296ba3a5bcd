"""Motion of a clip's objects: a random script of events, turned into trajectories.

A script is a list of :class:`Motion`, one every few frames. :func:`perform` searches for directions
and speeds that realise it (a motion that must end in a hit reaches its target on time) and gives up
if there are none; the caller then draws another script. Motion is straight and of constant speed
between events, so starts and stops are sharp. Times are frames, lengths table units.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
from numpy.typing import NDArray

from viper_lab.world.events import is_consequence
from viper_lab.world.scene import CLIP_FRAMES, ClipEvent

TABLE_HALF_X, TABLE_HALF_Y = 3.9, 2.6
"""The clip table reaches from ``-TABLE_HALF`` to ``+TABLE_HALF`` along each axis."""

MIN_SPEED, MAX_SPEED = 0.1, 0.46
"""Apparent speed in table units per frame; motion away from the camera looks shorter."""

DEPTH_FORESHORTENING = 0.63
SLOT_FRAMES = 7
WINDOW_FRAMES = 5
GRAVITY = 0.11
DROP_HEIGHT = 2.6
DROP_FRAMES = 4
GONE_BELOW = -3.0

Vector = NDArray[np.float64]


class ScriptImpossibleError(Exception):
    """This script cannot be performed from this layout; draw another one."""


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
    moving = {random.randrange(count)} if random.random() < 0.4 else set()
    absent = {i for i in range(count) if i not in moving and random.random() < 0.25}
    if len(absent) == count:
        absent.pop()
    resting = set(range(count)) - moving - absent
    used: set[tuple[str, int]] = set()
    steps: list[Motion] = []
    slots = random.choice((2, 3, 3, 4, 4))
    spare = CLIP_FRAMES - 6 - SLOT_FRAMES * (slots - 1)
    offsets = sorted(random.randint(0, spare - 1) for _ in range(slots))
    for slot, offset in enumerate(offsets):
        frame = 3 + offset + slot * SLOT_FRAMES
        step = _draw_step(random, frame, moving, absent, resting, used)
        steps.append(step)
        used.add((step.kind, step.actor))
        if step.kind in ("start", "appear"):
            (resting if step.kind == "start" else absent).discard(step.actor)
            (moving if step.kind == "start" else resting).add(step.actor)
        elif step.kind in ("stop", "fall"):
            moving.discard(step.actor)
            if step.kind == "stop":
                resting.add(step.actor)
        elif step.target is not None and _can_be_knocked(random, step.target, used):
            resting.discard(step.target)
            moving.add(step.target)
            used.add(("start", step.target))
            steps.append(Motion("start", frame + 1, step.target))
    if absent or max(sum(step.actor == i for step in steps) for i in range(count)) < 2:
        raise ScriptImpossibleError
    first_moving = {i for i in range(count) if _first_kind(steps, i) in ("stop", "hit", "fall")}
    return steps, first_moving


def _can_be_knocked(random: Random, target: int, used: set[tuple[str, int]]) -> bool:
    return ("start", target) not in used and random.random() < 0.75


def _first_kind(steps: Sequence[Motion], actor: int) -> str | None:
    return next((step.kind for step in steps if step.actor == actor), None)


def _draw_step(
    random: Random,
    frame: int,
    moving: set[int],
    absent: set[int],
    resting: set[int],
    used: set[tuple[str, int]],
) -> Motion:
    choices: list[tuple[float, Motion]] = [
        (2.0, Motion("appear", frame, i)) for i in sorted(absent)
    ]
    choices += [(1.0, Motion("start", frame, i)) for i in sorted(resting)]
    for i in sorted(moving):
        choices += [(1.0, Motion("stop", frame, i)), (1.6, Motion("fall", frame, i))]
        choices += [(2.0, Motion("hit", frame, i, j)) for j in sorted(resting)]
    choices = [(w, step) for w, step in choices if (step.kind, step.actor) not in used]
    if not choices:
        raise ScriptImpossibleError
    return random.choices([s for _, s in choices], [w for w, _ in choices])[0]


def perform(
    random: Random,
    steps: Sequence[Motion],
    first_moving: set[int],
    radii: Sequence[float],
    rest_heights: Sequence[float],
) -> tuple[NDArray[np.float32], tuple[ClipEvent, ...]]:
    """Return trajectories and events of a script.

    Returns:
        Positions ``float32 [T, N, 3]`` (NaN while an object is absent) and
        the events, sorted by start.

    Raises:
        ScriptImpossibleError: no layout was found; objects would touch or leave the table.
    """
    tracks = _layout(random, radii)
    knocked = {s.actor for s in steps if _causes(steps, s)}
    for i in first_moving:
        _set_off(random, i, 0, steps, tracks, radii)
    for step in steps:
        track = tracks[step.actor]
        if step.kind == "start":
            if step.actor not in knocked:
                _set_off(random, step.actor, step.frame - 1, steps, tracks, radii)
        elif step.kind == "stop":
            track.set_motion(step.frame - 1, np.zeros(2))
        elif step.kind == "appear":
            track.shown_from = step.frame
        elif step.kind == "fall":
            track.falls_at = step.frame
        elif step.target is not None:
            _collide(random, step, steps, tracks, knocked)
    positions = _positions(tracks, rest_heights)
    _check_tracks(positions, steps, tracks, radii)
    _check_gaps(positions, steps, radii)
    events = [ClipEvent(s.kind, s.actor, *window_of(s.kind, s.frame), s.target) for s in steps]
    events.sort(key=lambda event: (event.start, event.end))
    own = [event for event in events if not is_consequence(event, events)]
    for event in events:
        later = own if event in own else [e for e in own if e.start > event.start]
        if any(e is not event and e.start < event.end and event.start < e.end for e in later):
            raise ScriptImpossibleError
    return positions, tuple(events)


def _causes(steps: Sequence[Motion], start: Motion) -> bool:
    return start.kind == "start" and any(
        s.kind == "hit" and s.target == start.actor and s.frame == start.frame - 1 for s in steps
    )


def _layout(random: Random, radii: Sequence[float]) -> list[_Track]:
    tracks: list[_Track] = []
    for radius in radii:
        x = random.uniform(-TABLE_HALF_X + radius, TABLE_HALF_X - radius)
        y = random.uniform(-TABLE_HALF_Y + radius, TABLE_HALF_Y - radius)
        if any(np.hypot(*(t.position - (x, y))) < radius + 0.6 for t in tracks):
            raise ScriptImpossibleError
        tracks.append(_Track(np.array([x, y])))
    return tracks


def _end_of_motion(actor: int, frame: int, steps: Sequence[Motion]) -> Motion | None:
    return next((s for s in steps if s.actor == actor and s.frame > frame + 1), None)


def _set_off(
    random: Random,
    actor: int,
    frame: int,
    steps: Sequence[Motion],
    tracks: Sequence[_Track],
    radii: Sequence[float],
) -> None:
    """Choose a velocity from ``frame`` on that leads to the scripted end of this motion."""
    end = _end_of_motion(actor, frame, steps)
    here = tracks[actor].at(frame)
    if end is not None and end.kind == "hit" and end.target is not None:
        way = tracks[end.target].at(end.frame) - here
        distance = float(np.hypot(*way)) - (radii[actor] + radii[end.target])
        velocity = way / np.hypot(*way) * distance / (end.frame - frame)
        if distance <= 0:
            raise ScriptImpossibleError
    elif end is not None and end.kind == "fall":
        velocity = _towards_edge(random, here) / (end.frame - 0.5 - frame)
    else:
        angle = random.uniform(0, 2 * math.pi)
        velocity = np.array([math.cos(angle), math.sin(angle)]) * random.uniform(0.11, 0.4)
    tracks[actor].set_motion(frame, velocity)


def _towards_edge(random: Random, here: Vector) -> Vector:
    """Return a way to the left, right or front edge (the back edge would hide the fall)."""
    edge = random.choice(("left", "right", "front"))
    if edge == "front":
        return np.array([random.uniform(-0.6, 0.6), -TABLE_HALF_Y - here[1]])
    x = TABLE_HALF_X if edge == "right" else -TABLE_HALF_X
    return np.array([x - here[0], random.uniform(-0.8, 0.8)])


def _collide(
    random: Random,
    step: Motion,
    steps: Sequence[Motion],
    tracks: Sequence[_Track],
    knocked: set[int],
) -> None:
    """Push the target on while the actor follows slowly, or let the actor bounce off it."""
    assert step.target is not None
    actor, target = tracks[step.actor], tracks[step.target]
    velocity = actor.velocity
    if step.target not in knocked:
        actor.set_motion(step.frame, -velocity * random.uniform(0.5, 0.8))
        return
    turn = random.uniform(-0.25, 0.25)
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    passed_on = rotation @ velocity * random.uniform(0.8, 1.0)
    end = _end_of_motion(step.target, step.frame, steps)
    if end is not None and end.kind == "fall":
        passed_on = _speed_to_fall(target.at(step.frame), passed_on, end.frame - 0.5 - step.frame)
    elif end is not None and end.kind == "hit":
        raise ScriptImpossibleError
    actor.set_motion(step.frame, velocity * random.uniform(0.35, 0.5))
    target.set_motion(step.frame, passed_on)


def _speed_to_fall(here: Vector, velocity: Vector, frames: float) -> Vector:
    half = np.array([TABLE_HALF_X, TABLE_HALF_Y])
    with np.errstate(divide="ignore"):
        times = (np.sign(velocity) * half - here) / velocity
    if times[1] < times[0] and velocity[1] > 0:
        raise ScriptImpossibleError
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


def _check_tracks(
    positions: NDArray[np.float32],
    steps: Sequence[Motion],
    tracks: Sequence[_Track],
    radii: Sequence[float],
) -> None:
    """Check that speeds are clear and that objects leave the table exactly in their falls."""
    half = np.array([TABLE_HALF_X, TABLE_HALF_Y])
    for i, track in enumerate(tracks):
        for frame, _, velocity in track.rows:
            moving = bool(velocity.any()) and frame < CLIP_FRAMES - 1
            if moving and not MIN_SPEED <= apparent_speed(velocity) <= MAX_SPEED:
                raise ScriptImpossibleError
        fall = track.falls_at
        here = positions[track.shown_from : fall, i, :2]
        if (np.abs(here) > half - (radii[i] if fall is None else 0.0)).any():
            raise ScriptImpossibleError
        if fall is not None and (np.abs(positions[fall, i, :2]) <= half).all():
            raise ScriptImpossibleError


def _check_gaps(
    positions: NDArray[np.float32], steps: Sequence[Motion], radii: Sequence[float]
) -> None:
    """Check that objects keep their distance, and touch exactly at scripted hits."""
    contacts = {frozenset((s.actor, s.target)): s.frame for s in steps if s.kind == "hit"}
    for i in range(len(radii)):
        for j in range(i):
            gap = np.linalg.norm(positions[:, i, :2] - positions[:, j, :2], axis=-1)
            gap -= radii[i] + radii[j]
            contact = contacts.get(frozenset((i, j)))
            if contact is None:
                clear = not (gap < 0.25).any()
            else:
                away = np.abs(np.arange(CLIP_FRAMES) - contact) > 2
                clear = abs(gap[contact]) < 0.03 and not (gap[away] < 0.05).any()
                clear = clear and not (gap < -0.03).any()
            if not clear:
                raise ScriptImpossibleError
