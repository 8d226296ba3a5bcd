"""Ray-cast pictures of tabletop scenes in numpy, with exact ground truth.

Use :func:`render_scene` for a still. For other sizes or moving objects use a
:class:`~viper_lab.world.render_stage.Stage`, which keeps rays and table between pictures, e.g.
``Stage(Camera.around(height=5.0), CLIP_WIDTH, CLIP_HEIGHT, samples=1).render(objects)``.
"""

from __future__ import annotations

import numpy as np

from viper_lab.world.render_camera import Camera
from viper_lab.world.render_props import TableTop
from viper_lab.world.render_shading import Light
from viper_lab.world.render_stage import Rendering, Stage
from viper_lab.world.scene import IMAGE_HEIGHT, IMAGE_WIDTH, RenderedScene, Scene

# Samples per pixel of a still.
SAMPLES = 4


def render_scene(scene: Scene) -> RenderedScene:
    """Render a still of IMAGE_WIDTH x IMAGE_HEIGHT with its ground truth, from the scene alone.

    Objects that neither rest on the table nor on another object get a thin stand.
    """
    stage = Stage(
        Camera.for_scene(scene),
        IMAGE_WIDTH,
        IMAGE_HEIGHT,
        SAMPLES,
        Light.for_seed(scene.seed),
        TableTop.for_seed(scene.seed),
    )
    return rendered_scene(scene, stage.render(scene.objects, stands=True))


def rendered_scene(scene: Scene, picture: Rendering) -> RenderedScene:
    """Return a picture of a scene's objects with its ground truth."""
    depths = [
        float(np.median(picture.depth[mask])) if mask.any() else float("nan")
        for mask in picture.masks
    ]
    return RenderedScene(
        scene,
        picture.image,
        picture.boxes,
        picture.masks,
        picture.depth,
        np.array(depths, np.float32),
        picture.visible,
    )
