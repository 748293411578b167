"""Deixis: words tied to pixels.

The types are here; models, data sets and metrics are imported from their own folders so that ``import deixis``
stays light.
"""

from deixis.errors import DeixisError
from deixis.types import GroundedCaption, Grounding, HeatMap, Labels, Phrase, Regions

__version__ = "0.1.0"
__all__ = ["DeixisError", "GroundedCaption", "Grounding", "HeatMap", "Labels", "Phrase", "Regions", "__version__"]
