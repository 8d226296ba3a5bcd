import numpy as np
import pytest

from viper_lab.world import stills as stills_module
from viper_lab.world.id_maps import id_map, id_maps
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.stills import rendered_stills


@pytest.mark.parametrize("index", range(4))
def test_an_id_map_says_what_the_masks_say(index):
    still = render_scene(sample_scene("val", index))
    ids = id_map(still.scene)
    assert (ids.dtype, ids.shape) == (np.uint8, still.image.shape[:2])
    np.testing.assert_array_equal(ids > 0, still.masks.any(axis=0))
    shared = still.masks.sum(axis=0) > 1
    for number, mask in enumerate(still.masks, start=1):
        np.testing.assert_array_equal((ids == number)[~shared], mask[~shared])


def test_maps_of_stored_stills_are_cast_once(tmp_path, monkeypatch):
    monkeypatch.setattr(stills_module, "SHARD", 2)
    stills = rendered_stills("val", 2, tmp_path)
    maps = id_maps(stills)
    assert maps.shape == (2, 144, 192)
    np.testing.assert_array_equal(maps[1], id_map(stills.truths[1].scene))
    monkeypatch.setattr("viper_lab.world.id_maps.id_map", lambda scene: pytest.fail("cast again"))
    np.testing.assert_array_equal(id_maps(rendered_stills("val", 2, tmp_path)), maps)
