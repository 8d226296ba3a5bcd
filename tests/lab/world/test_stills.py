import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from viper.errors import UnknownNameError, UsageError
from viper_lab.commands.world import render
from viper_lab.world import stills as stills_module
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene
from viper_lab.world.splits import scene_seed
from viper_lab.world.stills import rendered_stills, truth_from_record, truth_record


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(stills_module, "SHARD", 3)


def test_a_record_gives_the_ground_truth_back():
    still = render_scene(sample_scene("val", 0))
    truth = truth_from_record(json.loads(json.dumps(truth_record(still))))
    assert truth.scene == still.scene
    assert np.array_equal(truth.boxes, still.boxes)
    assert np.array_equal(truth.object_depths, still.object_depths)
    assert np.array_equal(truth.visible, still.visible)


def test_stills_are_those_of_the_split_in_order(tmp_path):
    stills = rendered_stills("val", 4, tmp_path)
    still = render_scene(sample_scene("val", 3))
    assert len(stills) == len(list(stills)) == 4
    assert stills[3].scene == still.scene
    assert np.array_equal(stills[3].image, still.image)
    assert np.array_equal(stills.image(3), still.image)
    assert [each.scene.seed for each in stills[1:3]] == [each.scene.seed for each in stills][1:3]
    assert not stills[3].image.flags.writeable
    assert np.array_equal(stills.image(3), still.image)
    assert np.array_equal(stills.depth(3), still.depth.astype(np.float16))


def test_only_missing_shards_are_rendered(tmp_path, monkeypatch):
    rendered_stills("val", 3, tmp_path)
    done = []
    monkeypatch.setattr(
        stills_module,
        "_render_shard",
        lambda folder, split, shard: pytest.fail(f"shard {shard} was there"),
    )
    stills = rendered_stills("val", 2, tmp_path, progress=lambda *at: done.append(at))
    assert len(stills) == 2
    assert done == []


def test_progress_is_told_after_each_shard(tmp_path):
    done = []
    rendered_stills("val", 4, tmp_path, progress=lambda *at: done.append(at))
    assert done == [(3, 4), (4, 4)]


def test_a_shard_that_another_process_renders_is_left_to_it(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    target = stills_module._file(tmp_path, "val", 0, "lock")
    with target.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not stills_module._ensure_shard(tmp_path, "val", 0, wait=False)
    assert stills_module._ensure_shard(tmp_path, "val", 0, wait=True)


def test_an_interrupted_shard_is_not_taken_for_complete(tmp_path):
    rendered_stills("val", 3, tmp_path)
    (truth,) = tmp_path.glob("*truth.json")
    truth.unlink()
    assert len(rendered_stills("val", 3, tmp_path)) == 3 and truth.exists()


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot render 0 stills"):
        rendered_stills("val", 0, tmp_path)
    with pytest.raises(UnknownNameError):
        rendered_stills("dev", 1, tmp_path)


def test_render_command_writes_pictures_and_ground_truth(tmp_path):
    args = ["--split", "test", "--index", "7", "--count", "2", "--out", str(tmp_path / "new")]
    result = CliRunner().invoke(render, args, catch_exceptions=False)
    paths = [tmp_path / "new" / f"test-00000{i}.png" for i in (7, 8)]
    assert result.stdout.split() == [str(path) for path in paths]
    still = render_scene(sample_scene("test", 8))
    assert np.array_equal(np.array(Image.open(paths[1])), still.image)
    record = json.loads(paths[1].with_suffix(".json").read_text())
    assert truth_from_record(record).scene == still.scene


def test_render_command_draws_the_scene_of_a_seed(tmp_path):
    args = ["--seed", str(scene_seed("test", 7)), "--out", str(tmp_path)]
    assert CliRunner().invoke(render, args, catch_exceptions=False).exit_code == 0
    assert (tmp_path / "test-000007.png").exists()
