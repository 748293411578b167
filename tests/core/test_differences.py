"""Differences between a kept and an asked description."""

from deixis.differences import differences


def test_equal_descriptions_have_none() -> None:
    kept = {"a": {"b": [1, {"c": None}]}, "d": "x"}
    assert differences(kept, {"d": "x", "a": {"b": (1, {"c": None})}}) == []


def test_names_and_values_are_given_in_order() -> None:
    kept = {"z": 1, "a": {"b": [1, 2], "c": [1]}, "same": True, "gone": 0.5}
    asked = {"z": 2, "a": {"b": [1, 3], "c": [1, 2]}, "same": True, "new": "x"}
    assert differences(kept, asked) == [
        "a.b.1 (kept 2, asked 3)",
        "a.c (kept 1 entries, asked 2)",
        "gone (kept 0.5, asked absent)",
        "new (kept absent, asked x)",
        "z (kept 1, asked 2)",
    ]


def test_another_type_is_a_difference() -> None:
    assert differences({"a": {"b": 1}}, {"a": None}) == ["a (kept {'b': 1}, asked None)"]
    assert differences({"a": "12"}, {"a": [1, 2]}) == ["a (kept 12, asked [1, 2])"]
