"""Pascal VOC: ``Annotations/<name>.xml`` with the boxes of an image, ``ImageSets/Main/<split>.txt`` with their names.

An object is called by the head noun of its words. Boxes have whole pixels from 1, both ends included.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deixis import boxes as geometry
from deixis.data.reading import BadFile, BadRecord, Node, read_xml
from deixis.data.sample import Skipped
from deixis.exports.picture import Album, Answer, Picture, box_of, file_names, head_nouns, sized, split_ending
from deixis.exports.xml import box_element, element, save
from deixis.files import write_atomic
from deixis.types import Grounding

SPLIT = "test"


def write(pictures: Sequence[Picture], out: Path, split: str, skipped: list[Skipped], quiet: bool = False) -> None:
    """Write the objects of every image, and the list of images."""
    names, nouns = file_names(pictures), head_nouns(pictures, quiet)
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
    """The annotations of a folder: those in ``Annotations``, else those in the folder itself."""
    inner = folder / "Annotations"
    return sorted((inner if inner.is_dir() else folder).glob("*.xml"))


def read(paths: Sequence[Path], skipped: list[Skipped]) -> list[Picture]:
    """Read annotations, of whatever origin; every object is an answer to its name."""
    album = Album()
    for path in paths:
        try:
            _read(read_xml(path), path, album, skipped)
        except BadFile as error:
            skipped.append(error.skipped)
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error)))
    return album.pictures()


def _read(root: Node, path: Path, album: Album, skipped: list[Skipped]) -> None:
    named, told = root.find("filename"), root.find("size")
    image = (named.text.strip() if named is not None else "") or path.stem
    size = None if told is None else (int(told.number("width")), int(told.number("height")))
    if size is not None and min(size) < 1:
        size = None  # some tools write 0 where they do not know
    album.see(image, size)
    for thing in root.all("object"):
        try:
            album.add_answer(image, Answer(_object(thing)), size)
        except BadRecord as error:
            skipped.append(Skipped(str(path), str(error), thing.line))


def _object(thing: Node) -> Grounding:
    name, place = thing.find("name"), thing.find("bndbox")
    if name is None or not name.text.strip() or place is None:
        raise BadRecord("<object> has no <name> or no <bndbox>")
    corners = [place.number(tag) for tag in ("xmin", "ymin", "xmax", "ymax")]
    return Grounding(name.text.strip(), box_of(geometry.from_inclusive(corners)), 1.0)
