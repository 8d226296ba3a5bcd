"""``viper apply`` on the pictures of a bucket: a server of moto on this machine."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_apply import Bench
from tests.commands.test_bad_input import viper
from tests.models.test_media import MEDIA

s3fs = pytest.importorskip("s3fs")
boto3 = pytest.importorskip("boto3")
server_of = pytest.importorskip("moto.server")


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "open sesame", "AWS_DEFAULT_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    client = boto3.client("s3")
    client.create_bucket(Bucket="photos")
    yield client
    server.stop()


def rows(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def test_a_bucket_is_read_as_a_folder_is(
    bucket: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(tmp_path, capsys)
    for path in bench.pictures.iterdir():
        bucket.upload_file(str(path), "photos", f"shop/{path.name}")
    bucket.put_object(Bucket="photos", Key="shop/.hidden.png", Body=b"x")
    bucket.put_object(Bucket="photos", Key="shop/notes.txt", Body=b"x")
    bucket.put_object(Bucket="photos", Key="shop/sub/broken.png", Body=b"no picture")
    bucket.put_object(Bucket="photos", Key="other/9.png", Body=b"x")
    bucket.put_object(Bucket="photos", Key="shopping/9.png", Body=b"x")
    odd = ("a.png::b.png", "sub//3.png", "folder.png/")
    for name, body in zip(odd, (b"no picture", b"no picture", b""), strict=True):
        bucket.put_object(Bucket="photos", Key=f"shop/{name}", Body=body)
    assert bench.apply()[0] == 0
    local, bench.pictures = rows(bench.table), Path("x")
    arguments = [each.replace("answers.csv", "s3.csv") for each in bench.arguments()]
    arguments[2] = "s3://photos/shop/"
    code, _, err = viper(capsys, *arguments)
    found = rows(tmp_path / "s3.csv")
    broken = found.pop("sub/broken.png")
    assert all(found.pop(name)["failure"] == "media" for name in odd[:2])
    assert code == 1 and broken["failure"] == "media" and "notes" not in err and ".txt" in err
    assert {name: row["answer"] for name, row in found.items()} == {
        name: row["answer"] for name, row in local.items()
    }
    bucket.upload_file(
        str(tmp_path / "set" / "pictures" / "3.png"), "photos", "shop/sub/broken.png"
    )
    _, _, err = viper(capsys, *arguments)
    assert "removed 1 rows of files that changed" in err
    assert rows(tmp_path / "s3.csv")["sub/broken.png"]["failure"] == ""


PARTS = """def execute_command(video):
    segment = VideoSegment(video)
    return f"{segment.overview(3).num_frames} and {segment.skim(1, 3, 0.5).num_frames}"
"""


def test_parts_of_a_video_of_a_bucket_are_read(
    bucket: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(tmp_path, capsys)
    bucket.upload_file(str(MEDIA / "clip.mp4"), "photos", "clips/a.mp4")
    bench.program.write_text(PARTS)
    bench.pictures = Path("x")
    arguments = ["s3://photos/clips" if each == "x" else each for each in bench.arguments()]
    viper(capsys, *arguments)
    (row,) = rows(bench.table).values()
    assert (row["answer"], row["failure"]) == ("3 and 4", "")


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("s3://absent/x", "s3://absent/x: cannot be listed: "),
        ("s3://photos/made", "no picture or video in it"),
        ("s3://photos/empty", "no picture or video in it"),
        ("s3://photos/one.png", "s3://photos/one.png: is a file; expected a folder"),
        ("ftp://photos/x", "ftp:// is not read; expected a folder, or one of s3://, gs://"),
    ],
)
def test_a_bucket_that_cannot_be_read_is_one_line(
    bucket: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], folder: str, says: str
) -> None:
    bench = Bench(tmp_path, capsys)
    for name, body in {"one.png": b"x", "made/": b""}.items():
        bucket.put_object(Bucket="photos", Key=name, Body=body)
    arguments = bench.arguments()
    arguments[2] = folder
    said = bench.refused(*arguments)
    assert says in said and "sesame" not in said
