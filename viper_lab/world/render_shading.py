"""Appearance of surfaces: colours, rubber, metal and its surroundings, patterns, the table.

All light arithmetic is linear; :func:`to_pixels` converts it to display values.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

APPEARANCE = tomllib.loads(Path(__file__).with_name("appearance.toml").read_text("utf-8"))

# The colour words as display RGB in [0, 1].
DISPLAY_COLOURS: Mapping[str, Sequence[float]] = APPEARANCE["colours"]

# How far (in object radii) the bright ground reaches in a metal object's reflection.
_HORIZON = 1.15


@dataclass(frozen=True)
class Light:
    """The key light (it casts the shadows) and the even light around it.

    ``position`` is in table units; ``spread`` is the radius of the lamp, which
    makes the shadows soft where a pixel has several samples.
    """

    position: tuple[float, float, float] = (-4.5, -4.0, 9.0)
    strength: float = 1.0
    ambient: float = 0.42
    spread: float = 0.75

    @classmethod
    def for_seed(cls, seed: int) -> Light:
        """Return a lamp that varies slightly with the seed."""
        rng = np.random.default_rng([seed, 5])
        x, y, z = rng.uniform((-6.0, -5.5, 8.0), (-2.5, -2.5, 10.0))
        strength, ambient = rng.uniform((0.9, 0.36), (1.08, 0.46))
        return cls((float(x), float(y), float(z)), float(strength), float(ambient))

    def positions(self, samples: int) -> Floats:
        """Return one place on the lamp for each sub-pixel sample, float32 [samples, 3]."""
        centre = np.array(self.position, np.float32)
        if samples == 1:
            return centre[None]
        angle = np.arange(samples) * (2 * np.pi / samples) + 0.5
        ring = np.stack([np.cos(angle), np.sin(angle), 0 * angle], 1) * self.spread
        return (centre + ring).astype(np.float32)


@dataclass(frozen=True)
class Surface:
    """Visible points of one object; float32 [3, N], directions are unit vectors.

    ``above`` are the points relative to the foot of the object, in its radii; ``lit`` [N] is the
    share of the key light that arrives.
    """

    above: Floats
    normals: Floats
    view: Floats
    to_light: Floats
    lit: Floats


def albedo(colour: str, pattern: str | None, local: Floats) -> Floats:
    """Return the linear base colour [3, N] (or [3, 1]) of points in the solid's unit frame."""
    base = np.array(DISPLAY_COLOURS[colour], np.float32)[:, None] ** 2
    if pattern is None:
        return base
    if pattern == "striped":
        marked = np.mod(local[2] * 1.45 + local[1] * 1.1 + 0.25, 1) < 0.45
    elif pattern == "checkered":
        # Shifted, so that no face of a solid lies where two cells meet.
        marked = np.floor(local * 1.6 + 0.2).sum(0) % 2 == 0
    else:
        # Spots are cut from balls centred in the planes where each solid has surface.
        cell = np.mod((np.abs(local) - 0.25) / 0.75 + 0.5, 1) - 0.5
        marked = (cell * cell).sum(0) < 0.075
    return np.where(marked, np.float32(0.03 if colour == "white" else 0.92), base)


def shade(surface: Surface, base: Floats, material: str, light: Light) -> Floats:
    """Return the linear colour [3, N] that leaves the surface towards the camera."""
    normal, view = surface.normals, surface.view
    facing = np.maximum((normal * surface.to_light).sum(0), 0) * surface.lit * light.strength
    around = light.ambient * (0.62 + 0.38 * normal[2])
    mirror = view - 2 * (view * normal).sum(0) * normal
    glint = np.maximum((mirror * surface.to_light).sum(0), 0)
    if material == "rubber":
        sheen = 0.05 * glint**6 * surface.lit
        return base * (around + 0.78 * facing) + sheen
    seen = _surroundings(surface.above, mirror)
    edge = np.maximum(1 + (view * normal).sum(0), 0)
    tint = base + (1 - base) * (0.08 + 0.4 * edge**4)
    return base * (0.22 * around + 0.16 * facing) + tint * seen + 0.9 * glint**40 * surface.lit


def _surroundings(above: Floats, mirror: Floats) -> Floats:
    """Return the brightness [N] seen by mirror rays: bright ground, dark horizon, half-lit sky.

    The room moves with the object and its edges are close, so the reflection changes along a flat
    face too, which distinguishes metal from rubber there.
    """
    steep = np.maximum(np.abs(mirror[2]), 2e-2)
    ground = 0.08 + 0.80 / (1 + (above[2] / steep / _HORIZON) ** 8)
    across = mirror[0] / (steep + 0.4) + 0.8 * above[0] + 0.4 * above[1]
    sky = 0.42 + 0.34 * np.clip(across * 4, -1, 1)
    return np.where(mirror[2] < 0, ground, sky)


def to_pixels(linear: Floats) -> NDArray[np.uint8]:
    """Convert linear light to uint8 display values."""
    return (np.sqrt(np.clip(linear, 0, 1)) * 255 + 0.5).astype(np.uint8)
