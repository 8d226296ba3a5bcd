"""Names of models."""

from viper.models.loading import model_id


def test_a_folder_is_named_by_its_name_and_weights(tmp_path):
    folder = tmp_path / "depth"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    first = model_id(folder)
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert first.startswith("depth@") and len(first) == len("depth@") + 12
    assert model_id(folder) != first


def test_a_published_name_stays_itself():
    assert model_id("org/checkpoint") == "org/checkpoint"
