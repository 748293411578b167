"""Pickled NumPy arrays are read without running code."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import official_files as official
from deixis.data.array_pickle import load_array_pickle
from deixis.data.reading import BadFile


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i8", "f2"])
def test_every_protocol(tmp_path: Path, protocol: int, dtype: str) -> None:
    path = tmp_path / "array.pkl"
    for array in (np.arange(12).reshape(3, 4).astype(dtype), np.asfortranarray(np.arange(6.0).reshape(2, 3))):
        path.write_bytes(pickle.dumps(array, protocol))
        found = load_array_pickle(path)
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype.newbyteorder("=")


def test_python_2(tmp_path: Path) -> None:
    path = tmp_path / "array.pkl"
    array = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    path.write_bytes(official.python2_pickle(array))
    np.testing.assert_array_equal(pickle.loads(path.read_bytes(), encoding="latin1"), array)  # the writer is right
    np.testing.assert_array_equal(load_array_pickle(path), array)
    path.write_bytes(
        b"cnumpy.core.multiarray\n_reconstruct\np0\n(cnumpy\nndarray\np1\n(I0\ntp2\nS'b'\np3\ntp4\nRp5\n(I1\n(I2\ntp6\n"
        b"cnumpy\ndtype\np7\n(S'f4'\np8\nI0\nI1\ntp9\nRp10\n(I3\nS'<'\np11\nNNNI-1\nI-1\nI0\ntp12\nbI00\n"
        b"S'\\x00\\x00\\x80?\\x00\\x00\\x00@'\np13\ntp14\nb."
    )
    np.testing.assert_array_equal(load_array_pickle(path), [1.0, 2.0])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pickle.dumps(print), "builtins.print"),
        (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
        (pickle.dumps([1, 2]), "not a pickle of one NumPy array"),
        (pickle.dumps(np.array([{}], dtype=object)), "array"),
        (pickle.dumps(np.zeros(3))[:-40], "too early"),
        (official.python2_pickle(np.zeros((2, 3), np.float32)).replace(b"M\x03\x00", b"M\x04\x00"), "do not fit"),
        (b"", "empty"),
    ],
)
def test_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.pkl"
    path.write_bytes(data)
    with pytest.raises(BadFile, match=message):
        load_array_pickle(path)
