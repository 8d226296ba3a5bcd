"""Maps from pixels of a still to objects, cast again from the scene or stored on disk.

The store of stills holds no masks. Casting an id map again is cheaper than reading one mask per
object. A training that needs many maps stores them in one file.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from viper_lab.world.render import SAMPLES
from viper_lab.world.render_camera import Camera
from viper_lab.world.render_stage import Stage
from viper_lab.world.scene import IMAGE_HEIGHT, IMAGE_WIDTH, Scene
from viper_lab.world.stills import LOOK, Stills, save_array

# uint8 [H, W]: 0 for no object, i + 1 for ``scene.objects[i]``.
Ids = NDArray[np.uint8]


def id_map(scene: Scene) -> Ids:
    """Return each pixel's object by the rule of masks: at least half of the samples.

    If two objects share a pixel evenly, the later one gets it.
    """
    stage = Stage(Camera.for_scene(scene), IMAGE_WIDTH, IMAGE_HEIGHT, SAMPLES)
    met, _ = stage.ids(scene.objects, stands=True)
    ids = np.zeros((IMAGE_HEIGHT, IMAGE_WIDTH), np.uint8)
    for index in range(len(scene.objects)):
        ids[(met == index).sum(0) * 2 >= SAMPLES] = index + 1
    return ids


def id_maps(stills: Stills) -> Ids:
    """Return the id maps of stills on disk, uint8 [N, H, W], memory-mapped; cast on first use.

    They are stored beside the stills, in one file per number of stills and split.
    """
    path = stills.folder / f"look{LOOK}-{stills.split}-ids-{len(stills)}.npy"
    if not path.exists():
        save_array(path, np.stack([id_map(truth.scene) for truth in stills.truths]))
    return np.asarray(np.load(path, "r"))
