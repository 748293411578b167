"""Box proposals: a photograph becomes boxes that may hold something.

The default needs no box supervision at all. Whatever learnt from boxes says so in ``describe()["supervision"]``.
"""

from __future__ import annotations

from deixis.errors import DeixisError
from deixis.vision.proposals.base import Proposals, Proposer
from deixis.vision.proposals.selective import SelectiveSearch

__all__ = ["Proposals", "Proposer", "SelectiveSearch", "by_name", "default"]


def default() -> Proposer:
    """The proposer that everything uses unless told otherwise: selective search, 100 boxes, no box supervision."""
    return SelectiveSearch()


def by_name(name: str, limit: int = 100) -> Proposer:
    """The proposer of that name for the command line, giving at most ``limit`` boxes, the whole image included."""
    if name == "selective-search":
        return SelectiveSearch(limit=limit)
    raise DeixisError(f"there are no proposals called '{name}'; choose selective-search.")
