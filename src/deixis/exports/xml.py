"""XML elements common to Pascal VOC and Flickr30k Entities."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from deixis import boxes as geometry
from deixis.exports.picture import Size
from deixis.files import write_atomic
from deixis.types import Grounding

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # XML cannot represent these


def element(tag: str, *children: tuple[str, object] | Element) -> Element:
    """Build an element with children: elements, or (tag, text)."""
    node = Element(tag)
    for child in children:
        if isinstance(child, tuple):
            ElementTree.SubElement(node, child[0]).text = _NOT_XML.sub("", str(child[1]))
        else:
            node.append(child)
    return node


def box_element(grounding: Grounding, size: Size | None) -> Element:
    """Build ``<bndbox>`` with 1-based inclusive integer corners."""
    whole = geometry.to_inclusive(geometry.to_whole_pixels(grounding.box, *(size or (math.inf, math.inf))))
    return element("bndbox", *zip(("xmin", "ymin", "xmax", "ymax"), map(int, whole), strict=True))


def save(root: Element, path: Path) -> None:
    """Write the document, one line per element."""
    ElementTree.indent(root)
    write_atomic(path, ElementTree.tostring(root, encoding="unicode") + "\n", sync=False)
