"""Files of a bucket, such as ``s3://bucket/photos``, by the package fsspec.

Keys, region and endpoint come from the environment, as the package of each kind of address reads
them (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ``GOOGLE_APPLICATION_CREDENTIALS``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from viper.errors import MediaError, UsageError
from viper.plugins import need_packages

# Package of each kind of address.
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}

# What was listed once is listed again: an object may have changed.
_FRESH = {"use_listings_cache": False}

# Bytes of an object: more is no picture, and a video of hours belongs on a disk.
_MOST_BYTES = 1 << 30


def remote_folder(folder: str) -> str | None:
    """Return the address of a folder in a bucket without a slash at its end; None for a path.

    Raises:
        UsageError: there is no package for such addresses.
        MissingExtraError: it is not installed.
    """
    scheme, is_address, _ = folder.partition("://")
    if not is_address:
        return None
    if scheme not in _PACKAGES:
        known = ", ".join(f"{each}://" for each in _PACKAGES)
        raise UsageError(f"{folder}: {scheme}:// is not read; expected a folder, or one of {known}")
    need_packages((_PACKAGES[scheme],), f"{scheme}://")
    return folder.rstrip("/")


def remote_files(address: str) -> Iterator[tuple[str, str]]:
    """Yield relative name and state of the files below an address, in the order of their names.

    The state changes with the content. Hidden files and folders are left out.

    Raises:
        UsageError: they cannot be listed.
    """
    import fsspec

    try:
        scheme, _, path = address.partition("://")
        found = fsspec.filesystem(scheme, **_FRESH).find(path, detail=True)
    except Exception as error:  # noqa: BLE001 (boundary: each package raises kinds of its own)
        raise UsageError(f"{address}: cannot be listed: {_said(error)}") from None
    if [*found] == [path] and found[path].get("size"):
        raise UsageError(f"{address}: is a file; expected a folder with pictures or videos")
    for key, info in sorted(found.items()):
        name = key[len(path) + 1 :]
        is_file = info.get("type") == "file" and name and not name.endswith("/")
        if is_file and not any(part.startswith(".") for part in name.split("/")):
            version = info.get("ETag") or info.get("etag") or info.get("LastModified")
            yield name, f"{info['size']}\0{version}"


@dataclass(frozen=True)
class RemoteFile:
    """Callable that returns the bytes of a file of a bucket, in a list. It can be pickled."""

    address: str

    def __call__(self) -> list[bytes]:
        """Read the file.

        Raises:
            MediaError: it cannot be read, or is too large.
        """
        import fsspec

        try:
            scheme, _, path = self.address.partition("://")
            system = fsspec.filesystem(scheme, **_FRESH)
            size = system.size(path) or 0
            data: bytes = system.cat_file(path) if size <= _MOST_BYTES else b""
        except Exception as error:  # noqa: BLE001 (boundary: as above)
            raise MediaError(f"{self.address}: cannot be read: {_said(error)}") from None
        if size > _MOST_BYTES:
            raise MediaError(f"{self.address}: has over {_MOST_BYTES >> 30} GiB")
        return [data]


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
