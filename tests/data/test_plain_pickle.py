"""The pickle reader: every plain value of every protocol, and nothing that could run, hang or eat the memory."""

import contextlib
import io
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.data import plain_pickle
from deixis.data.plain_pickle import load_plain_pickle
from deixis.data.reading import BadFile
from deixis.errors import DeixisError

PLAIN = {
    "texts": ["", "a man", "naïve \u2028 \U0001f415", 'it\'s "quoted"\nand\\broken'],
    "numbers": [0, 1, 255, 256, 65535, 65536, -1, -(2**31), 2**31, 2**62, -(2**70), 1.5, -0.0, 1e300],
    "others": [None, True, False, b"", b"\x00\xff" * 200],
    "containers": [[], {}, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [[]], {"a": {"b": []}}],
    3: "a number as a key",
}


def write(tmp_path, data: bytes):
    path = tmp_path / "refs(unc).p"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_come_back(tmp_path, protocol):
    value = dict(PLAIN)
    if protocol < 3:  # Python 3 writes its bytes as a call there
        value["others"] = [None, True, False]
    data = pickle.dumps(value, protocol)
    assert load_plain_pickle(write(tmp_path, data)) == value
    assert load_plain_pickle(write(tmp_path, pickletools.optimize(data))) == value


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
    max_leaves=20,
)


@given(value=plain_values, protocol=st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_any_plain_value_comes_back(tmp_path_factory, value, protocol):
    path = write(tmp_path_factory.getbasetemp(), pickle.dumps(value, protocol))
    assert load_plain_pickle(path) == value


@given(data=st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: b"\x80\x02]q\x00(" + tail + b"e."))
def test_any_bytes_are_a_plain_value_or_a_named_fault(tmp_path_factory, data):
    path = write(tmp_path_factory.getbasetemp(), data)
    with contextlib.suppress(BadFile):  # any other exception fails the test
        assert type(load_plain_pickle(path)) in (dict, list, tuple, str, bytes, int, float, bool, type(None))


def test_python_2_texts(tmp_path):
    # As Python 2 wrote them: protocol 0 with escapes, protocol 2 with counted bytes.
    old = b"(lp0\nS'caf\\xc3\\xa9'\np1\naS\"it's \\xe9\"\np2\naVna\\u00efve\np3\nag1\naI7\naI01\naL9L\na."
    assert load_plain_pickle(write(tmp_path, old)) == ["café", "it's é", "naïve", "café", 7, True, 9]
    counted = b"\x80\x02]q\x01(U\x05caf\xc3\xa9q\x02T\x02\x00\x00\x00\xe9!h\x02e."
    assert load_plain_pickle(write(tmp_path, counted)) == ["café", "é!", "café"]


class _Runs:
    def __reduce__(self):
        return os.system, ("touch ran",)


class _Evaluates:
    def __reduce__(self):
        return eval, ("__import__('pathlib').Path('ran').touch()",)


class _Instance:
    def __init__(self):
        self.value = 1


class _Remote(pickle.Pickler):
    def persistent_id(self, obj):
        return "elsewhere" if obj == "far" else None


def _persistent(protocol: int) -> bytes:
    file = io.BytesIO()
    _Remote(file, protocol).dump(["near", "far"])
    return file.getvalue()


HOSTILE = {
    "os.system, protocol 0": b"cos\nsystem\n(S'touch ran'\ntR.",
    "os.system, protocol 2": pickle.dumps(_Runs(), 2),
    "os.system, protocol 4": pickle.dumps(_Runs(), 4),
    "eval": pickle.dumps([{"sentences": _Evaluates()}], 4),
    "getattr chain": b"cbuiltins\ngetattr\n(cbuiltins\n__dict__\nS'get'\ntR(S'eval'\ntR(S'1+1'\ntR.",
    "inst": b"(S'touch ran'\nios\nsystem\n.",
    "obj": b"(cos\nsystem\nS'touch ran'\no.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x09touch ran\x85R.",
    "stack global out of the memo": b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94h\x00h\x01\x93)R.",
    "reduce of a text": b"S'os.system'\n(S'touch ran'\ntR.",
    "build on a list": b"]}S'__class__'\nS'x'\nsb.",
    "newobj": b"\x80\x02])\x81.",
    "newobj ex": b"\x80\x04])}\x92.",
    "extension 1": b"\x80\x02\x82\x01.",
    "extension 2": b"\x80\x02\x83\x01\x00.",
    "extension 4": b"\x80\x02\x84\x01\x00\x00\x00.",
    "persistent id, text": _persistent(0),
    "persistent id": _persistent(2),
    "out-of-band buffer": b"\x80\x05\x97.",
    "bytearray": pickle.dumps(bytearray(b"x"), 5),
    "set": pickle.dumps({1, 2}, 4),
    "an instance": pickle.dumps(_Instance(), 2),
    "numpy scalar": pickle.dumps([{"image_id": np.int64(3)}], 2),
    "numpy array": pickle.dumps(np.arange(3), 2),
    "Python 3 bytes, protocol 2": pickle.dumps(b"x", 2),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_plain_is_refused(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadFile, match=r"refs\(unc\)\.p: not a pickle of plain values") as caught:
        load_plain_pickle(write(tmp_path, data))
    assert isinstance(caught.value, DeixisError)
    assert not (tmp_path / "ran").exists()


def test_a_refused_name_is_told(tmp_path):
    with pytest.raises(BadFile, match=r"it refers to the Python object os\.system at byte 0"):
        load_plain_pickle(write(tmp_path, HOSTILE["os.system, protocol 0"]))


def test_nothing_is_imported_or_called(tmp_path):
    """Python's own audit hooks see no import, no lookup by pickle, no new process and no file but the pickle."""
    for index, data in enumerate(HOSTILE.values()):
        (tmp_path / f"{index}.p").write_bytes(data)
    script = """
        import sys
        from pathlib import Path
        from deixis.data.plain_pickle import load_plain_pickle
        from deixis.data.reading import BadFile

        b"x".decode("raw-unicode-escape")  # Python imports a codec when it is used first
        events = []
        root = Path(sys.argv[1])
        paths = sorted(root.glob("*.p"))
        sys.addaudithook(lambda event, args: events.append((event, str(args[:1])[:200])))
        for path in paths:
            try:
                load_plain_pickle(path)
            except BadFile:
                continue
            raise SystemExit(f"{path} was read")
        # the pickle is opened by its name, and then by its number
        strange = [e for e in events if not (e[0] == "open" and (".p'" in e[1] or e[1].strip("(,)").isdigit()))]
        assert events and not strange, strange
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


BROKEN = {
    "no stop": b"(lp0\n",
    "truncated text": b"U\x20short.",
    "truncated line": b"S'never ends'",
    "truncated in the middle": pickle.dumps([PLAIN], 2)[:-40],
    "a text that claims four gigabytes": b"T\xff\xff\xff\xff.",
    "a text that claims an exabyte": b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b".",
    "stack underflow": b"a.",
    "no mark": b"]e.",
    "nothing to return": b"\x80\x02.",
    "memo that was never set": b"h\x05.",
    "get of nonsense": b"gx\n.",
    "not a number": b"Itwelve\n.",
    "number of ten thousand digits": b"I" + b"9" * 10_000 + b"\n.",
    "text without quotes": b"Sabc\n.",
    "not UTF-8": b"X\x01\x00\x00\x00\xff.",
    "append to a dict": b"}I1\na.",
    "item of a list": b"]I1\nI2\ns.",
    "odd items": b"}(I1\nu.",
    "list as a key": b"}]I1\ns.",
    "tuple as a key": b"})I1\ns.",
    "empty": b"",
    "text, not a pickle": b"<html>not found</html>",
    "JSON": b'[{"ref_id": 1}]',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_broken_files_are_named(tmp_path, data):
    with pytest.raises(BadFile, match=r"refs\(unc\)\.p"):
        load_plain_pickle(write(tmp_path, data))


def test_a_memo_number_sets_no_memory_aside(tmp_path):
    # The standard unpickler makes room for 8 billion entries here.
    data = b"\x80\x02]r\xff\xff\xff\xffp99999999999999999999\n."
    assert load_plain_pickle(write(tmp_path, data)) == []


def test_deep_nesting_is_read_without_recursion(tmp_path):
    value = load_plain_pickle(write(tmp_path, b"(" * 200_000 + b"l" * 200_000 + b"."))
    depth = 0
    while value:
        [value] = value
        depth += 1
    assert depth == 199_999


def test_a_list_may_hold_itself(tmp_path):
    value: list[object] = []
    value.append(value)
    back = load_plain_pickle(write(tmp_path, pickle.dumps(value, 0)))
    assert back[0] is back


def test_files_over_the_limit_are_not_read(tmp_path):
    path = write(tmp_path, pickle.dumps(["x" * 1000]))
    with pytest.raises(BadFile, match="more than the limit of 500"):
        load_plain_pickle(path, limit=500)
    assert plain_pickle.MAX_PICKLE > 10**8


def test_only_instructions_that_build_plain_values_are_known():
    known = {pickletools.code2op[chr(opcode)].name for opcode in plain_pickle.INSTRUCTIONS}
    refused = {op.name for op in pickletools.opcodes} - known
    assert refused == {
        "GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD",
        "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER", "READONLY_BUFFER",
        "BYTEARRAY8", "EMPTY_SET", "ADDITEMS", "FROZENSET", "LONG4", "STOP",
    }  # fmt: skip
