"""Pascal VOC: ``Annotations/<name>.xml`` with the boxes of an image, ``ImageSets/Main/<split>.txt`` with image names.

The name of an object is the head noun of its phrase. Boxes have 1-based inclusive integer corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deixis import boxes as geometry
from deixis.data.reading import BadFile, BadRecord, Node, read_xml
from deixis.data.sample import Skipped
from deixis.exports.picture import Answer, Picture, PictureBuilder, box_of, file_names, head_nouns, sized, split_ending
from deixis.exports.xml import box_element, element, save
from deixis.files import write_atomic
from deixis.types import Grounding

SPLIT = "test"


def write(pictures: Sequence[Picture], out: Path, split: str, skipped: list[Skipped]) -> None:
    """Write the objects of each image and the list of images."""
    names, nouns = file_names(pictures), head_nouns(pictures)
    (out / "Annotations").mkdir(parents=True, exist_ok=True)
    (out / "ImageSets" / "Main").mkdir(parents=True, exist_ok=True)
    listed = []
    for picture, (width, height) in sized(pictures, skipped):
        stem, ending = split_ending(names[picture.image])
        extent = element("size", ("width", width), ("height", height), ("depth", 3))
        root = element("annotation", ("filename", stem + ending), extent, ("segmented", 0))
        for place in picture.places():
            about = [("name", nouns[place.text]), ("pose", "Unspecified"), ("truncated", 0), ("difficult", 0)]
            root.append(element("object", *about, box_element(place, picture.size)))
        save(root, out / "Annotations" / f"{stem}.xml")
        listed.append(stem)
    write_atomic(out / "ImageSets" / "Main" / f"{split}.txt", "".join(f"{s}\n" for s in listed))


def files_in(folder: Path) -> list[Path]:
    """List the annotation files in ``Annotations``, or else in the folder itself."""
    inner = folder / "Annotations"
    return sorted((inner if inner.is_dir() else folder).glob("*.xml"))


def read(paths: Sequence[Path], skipped: list[Skipped]) -> list[Picture]:
    """Read annotations of any origin; each object is a prediction for its name."""
    builder = PictureBuilder()
    for path in paths:
        try:
            _read(read_xml(path), path, builder, skipped)
        except BadFile as error:
            skipped.append(error.skipped)
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error)))
    return builder.pictures()


def _read(root: Node, path: Path, builder: PictureBuilder, skipped: list[Skipped]) -> None:
    name_node, size_node = root.find("filename"), root.find("size")
    image = (name_node.text.strip() if name_node is not None else "") or path.stem
    size = None if size_node is None else (int(size_node.number("width")), int(size_node.number("height")))
    if size is not None and min(size) < 1:
        size = None  # some tools write 0 for an unknown size
    builder.add_image(image, size)
    for item in root.all("object"):
        try:
            builder.add_answer(image, Answer(_object(item)), size)
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), item.line))


def _object(item: Node) -> Grounding:
    name, place = item.find("name"), item.find("bndbox")
    if name is None or not name.text.strip() or place is None:
        raise BadRecord("<object> has no <name> or no <bndbox>")
    corners = [place.number(tag) for tag in ("xmin", "ymin", "xmax", "ymax")]
    return Grounding(name.text.strip(), box_of(geometry.from_inclusive(corners)), 1.0)
