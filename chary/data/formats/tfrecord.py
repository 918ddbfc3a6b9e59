"""TFRecord files of tf.Examples, plain or compressed with gzip, every checksum checked.

The records are taken apart here, because the `tfrecord` package does not look at checksums and believes
whatever length a damaged file claims; the messages inside are parsed by its protocol buffers.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np

from chary.data.formats.guard import TIGHTEST, UNSTORED, check_memory, regular
from chary.errors import CharyError

GZIP = b"\x1f\x8b\x08"
LONGEST = 2**26
"""Bytes in a record: an episode of vectors is far shorter."""


class Features(Mapping[str, np.ndarray]):
    """The numeric features of an example, flat as they are stored; read when they are asked for."""

    def __init__(self, features: Any):
        self.features = {k: f for k, f in features.items() if not f.HasField("bytes_list")}

    def __getitem__(self, key: str) -> np.ndarray:
        feature = self.features[key]
        if feature.HasField("float_list"):
            return np.array(feature.float_list.value, np.float32)
        return np.array(feature.int64_list.value, np.int64)

    def __iter__(self) -> Iterator[str]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)


def read(path: Path) -> Iterator[Features]:
    """The features of each example in turn."""
    try:
        example = import_module("tfrecord.example_pb2").Example
    except ImportError as error:
        raise CharyError(f"{path}: TFRecords need a package: pip install 'chary[rlu]'") from error
    from google.protobuf.message import DecodeError

    for index, record in enumerate(records(path)):
        try:
            features = example.FromString(record).features.feature
        except DecodeError as error:
            raise CharyError(f"{path}: record {index} is not a tf.Example ({error}).") from error
        yield Features(features)


def records(path: Path) -> Iterator[bytes]:
    """The payload of each record; a file that is damaged anywhere is an error there."""
    try:
        with open(regular(path), "rb") as file:
            compressed = file.read(len(GZIP)) == GZIP
        with gzip.open(path) if compressed else open(path, "rb") as file:
            size, total, looked_at = path.stat().st_size, 0, UNSTORED
            while header := file.read(8):
                length = int.from_bytes(_checked(file, header), "little")
                if length > LONGEST:
                    raise ValueError(f"a record of {length} bytes")
                total += length
                if total > UNSTORED + TIGHTEST * size:
                    raise ValueError(f"records of {total:,} bytes in a file of {size:,}")
                if total > looked_at:  # what came before has been taken already
                    check_memory(path, 4 * UNSTORED)
                    looked_at += UNSTORED
                yield _checked(file, file.read(length), length)
    # What is wrong in the file; a disk that fails; and what gzip makes of a damaged file.
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise CharyError(
            f"{path}: not a readable TFRecord file ({error}). "
            "It may be damaged or only partly downloaded."
        ) from error


def _checked(file: BufferedIOBase, content: bytes, length: int = 8) -> bytes:
    """The content, if it is as long as it should be and the checksum after it is right."""
    from crc32c import crc32c

    checksum = file.read(4)
    if len(content) != length or len(checksum) != 4:
        raise ValueError("it ends in the middle of a record")
    crc = crc32c(content)
    # TensorFlow's mask: rotated by 15 bits, and a constant added.
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    if struct.unpack("<I", checksum)[0] != masked:
        raise ValueError("a checksum does not match")
    return content
