"""``deixis import``: make a model folder from published weights."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from deixis.commands.console import Quiet, stderr_console
from deixis.files import exclusive, make_folder
from deixis.vision.store import FeatureStore

if TYPE_CHECKING:
    from deixis.training.published import Imported

Kind = Literal["scan", "updown", "albef", "amc"]

READERS: dict[Kind, tuple[str, str]] = {
    "scan": ("deixis.methods.scan.published", "import_published"),
    "updown": ("deixis.methods.updown.published", "import_published"),
    "albef": ("deixis.methods.albef.published", "import_albef"),
    "amc": ("deixis.methods.albef.published", "import_amc"),
}
"""Kind of weights -> module and function that reads them: ``PublishedFiles`` to ``Imported``."""


def import_(
    kind: Annotated[Kind, tyro.conf.Positional, tyro.conf.arg(metavar="KIND")],
    weights: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])],
    vocabulary: Annotated[Path | None, tyro.conf.arg(aliases=["--vocab"])] = None,
    features: Path | None = None,
    name: str = "",
    heads: int | None = None,
    fusion_from: int | None = None,
    map_layer: int | None = None,
    quiet: Quiet = False,
) -> int:
    """Make a model folder from published weights, so that they can be used and scored without training.

    For example: deixis import scan model_best.pth.tar --vocabulary f30k_precomp_vocab.json --features f.store -o m

    No code of the file is run. Kinds: scan (SCAN and POS-SCAN), updown (captioners of POS-SCAN), albef (pre-trained or
    fine-tuned), amc.

    Args:
        kind: kind of the weights.
        weights: the published file.
        out: folder of the model.
        vocabulary: published file with the words of the model. albef and amc: BERT's vocab.txt; if not given, that of
            the installed MiniLM.
        features: feature store of the extractor that the model was trained on; the model accepts its regions.
        name: name of the model. If not given: the name of the folder.
        heads: attention heads of albef and amc. If not given: 12.
        fusion_from: first layer of albef and amc that attends to the image, from 0. If not given: 6.
        map_layer: layer of the heat map of albef and amc, from 0. If not given: 8.
    """
    from deixis.training.published import PublishedFiles, published_extras

    console = stderr_console(quiet)
    module, function = READERS[kind]
    store = None if features is None else FeatureStore(features)
    sizes = {"heads": heads, "fusion_from": fusion_from, "map_layer": map_layer}
    given = {option: size for option, size in sizes.items() if size is not None}
    files = PublishedFiles(weights, name or out.resolve().name, vocabulary, store, given)
    with console.status(f"reading {weights}"):
        imported: Imported = getattr(import_module(module), function)(files)
    make_folder(out)
    with exclusive(out, "--out"):
        imported.model.save_pretrained(out, published_extras(files, imported))
    console.print(f"written: {out} ({imported.method}; {imported.supervision})", markup=False)
    return 0
