"""Another box rule for a phrase grounder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from deixis import DeixisError
from deixis.evaluation.evaluate import with_box_rule


class Grounder:
    """Record the rule of each call."""

    name, box_rules = "stub", ("attention", "vote")

    def __init__(self) -> None:
        self.rules: list[str | None] = []

    def ground(self, photo: Any, queries: Sequence[Any], place: str | None = None) -> list[Any]:
        self.rules.append(place)
        return []


def test_the_rule_is_used_where_a_call_names_none() -> None:
    grounder: Any = Grounder()
    changed = with_box_rule(grounder, "attention")
    assert isinstance(changed, Grounder)
    changed.ground(None, [])
    changed.ground(None, [], None)
    changed.ground(None, [], "vote")
    grounder.ground(None, [])  # the grounder itself stays as it was
    assert grounder.rules == ["attention", "attention", "vote", None]


def test_a_rule_of_another_kind_of_grounder_is_refused() -> None:
    grounder: Any = Grounder()
    with pytest.raises(DeixisError, match=r"stub finds boxes by attention over regions.*not alpha"):
        with_box_rule(grounder, "alpha")
