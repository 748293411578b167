"""``deixis eval``: score a model on a split of a data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro

from deixis.commands.console import (
    AsJson,
    CheckOption,
    Device,
    Generation,
    GenerationOptions,
    PlaceOption,
    Quiet,
    RerankOption,
    Switch,
    Threads,
    caption_options,
    extract_all,
    print_evaluation,
    stderr_console,
    use_threads,
)
from deixis.data import recognise
from deixis.errors import UsageError
from deixis.metrics.references import read_reference


def eval(
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")],
    data: Path,
    split: tuple[str, ...] = ("test",),
    features: Path | None = None,
    proposals: Path | None = None,
    exclude: tuple[Path, ...] = (),
    allow_seen: Switch = False,
    out: Path | None = None,
    grounder: str | None = None,
    rerank: RerankOption = "grounder",
    place: PlaceOption = None,
    check: CheckOption = "all",
    generation: Generation = GenerationOptions(),  # noqa: B008
    classes: Path | None = None,
    spice_jars: Path | None = None,
    shown: int = 12,
    device: Device = "auto",
    threads: Threads = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Score a model on a split of a data set, through the pipeline that all verbs use.

    A captioner captions every image; the sentences and boxes are those that `deixis caption` gives with the same
    options. Scores: caption metrics, F1 of grounded words, kinds of error and, where boxes come from its attention,
    attention accuracy at the phrases of the true captions. A phrase grounder grounds the phrases of the true captions;
    a matcher is also scored on retrieval.

    The folder of the evaluation has the predictions (captions.jsonl, phrases.jsonl), the scores with their statistics
    for `deixis compare` (scores.json), a page of all scores (scores.html) and a page of captions (index.html).

    For example: deixis eval runs/updown --data flickr30k --split test

    Args:
        model: captioner or phrase grounder, a name of the package or a folder.
        data: the data set.
        split: the split to score; several are scored as one.
        features: its feature store; without it, regions are extracted now.
        proposals: boxes of a detector, {image_id: [[x, y, width, height, ...]]}, of which ALBEF and AMC select one by
            heat over the root of the area (--place alpha).
        exclude: images to leave out: a file of ids; or a Visual Genome folder, for the COCO ids of its training images
            (train.txt, or a second path).
        allow_seen: also score a model on its training images; the signature then has their number.
        out: folder of the evaluation; by default in the model's folder, or runs/NAME for a model of the package.
        grounder: phrase grounder of a captioner, by name or folder; as in `deixis caption`.
        classes: list of object classes, such as dic_flickr30k.json; as in `deixis score`.
        spice_jars: folder with the CoreNLP jars; adds SPICE.
        shown: how many of the worst and of the best captions the page shows.
        as_json: write the scores to stdout as JSON.
    """
    from deixis.data.dictionary import read_classes
    from deixis.data.lists import excluded_images, read_proposals
    from deixis.evaluation import evaluate as scores
    from deixis.evaluation.evaluate import SCORING, evaluate_captions, evaluate_grounder, joint_supervision, with_mark
    from deixis.evaluation.files import write_evaluation, write_pages
    from deixis.evaluation.split import SplitPhotos
    from deixis.model_folder import read_supervision
    from deixis.pipelines.models import PACKAGE, is_captioner, load_grounder, load_models, model_folder
    from deixis.training.seen import require_unseen
    from deixis.vision.store import FeatureStore

    use_threads(threads)
    console = stderr_console(quiet)
    source = model_folder(model)
    about = {"supervision": read_supervision(source)}
    with console.status(f"reading {data}"):
        left_out = excluded_images(exclude) if exclude else frozenset()
        reference = read_reference(data, split, exclude=left_out)
        boxes = None if proposals is None else read_proposals(proposals)
    if exclude:
        console.print(f"kept by --exclude: {reference.split}", markup=False)
    with_grounder = grounder if grounder not in (None, "none") else None
    judged = [source, *([] if with_grounder is None else [model_folder(with_grounder)])]
    ids = [sample.image_id for sample in reference.samples]
    seen = require_unseen(judged, recognise(data).NAME, data, reference.split, ids, allow_seen)
    photos = SplitPhotos(reference.samples, None if features is None else FeatureStore(features))
    name, results = f"eval-{'+'.join(split)}", None
    name += (f"-{proposals.stem}" if proposals else "") + ("-excluded" if exclude else "")
    if is_captioner(source):
        if proposals is not None:
            raise UsageError("--proposals is for phrase grounders with heat maps (ALBEF, AMC). Remove it.")
        models = generation.apply(load_models(model, grounder, device))
        if models.grounder is not None:
            other = model_folder(grounder or models.grounder.name)
            about["grounder"] = models.grounder.name
            about["supervision"] = joint_supervision(about["supervision"], read_supervision(other))
            name += f"-{other.name}"
        if features is None:
            extract_all(photos, models.extractor, console)
        with console.status(f"{models.name} on {len(photos)} images"):
            listed = None if classes is None else read_classes(classes)
            scoring = replace(SCORING, spice_jars=spice_jars, classes=listed)
            options = caption_options(rerank, place, check)
            found = evaluate_captions(models, reference, photos, options, scoring=scoring)
        about["model"], results = models.name, found.results
        predictions = found.predictions
        evaluation = scores.with_localizer(found.evaluation, source, reference, photos)
    else:
        if grounder is not None or place in ("grounder",):
            raise UsageError(f"{model} is a phrase grounder; --grounder is for captioners.")
        alone = load_grounder(model, device)
        if features is None:
            extract_all(photos, alone.extractor, console)
        with console.status(f"{alone.name} on {len(photos)} images") as status:
            predictions, evaluation = evaluate_grounder(
                *(alone, reference, photos, place, boxes),  # type: ignore[arg-type]
                lambda images: status.update(f"{alone.name}: {images:,} of {len(photos):,} images"),
            )
        about["model"] = alone.name
    if seen:
        evaluation = with_mark(evaluation, f"seen:{seen}")
    home = Path("runs") / source.name if source.parent == PACKAGE else source
    folder = out or home / name
    about |= {"predictions": str(folder), "data": reference.name, "split": reference.split}
    about["reference"] = str(data.resolve() if data.exists() else data)
    about |= {"place": place} if place is not None else {}
    about |= {"proposals": proposals.name} if proposals is not None else {}
    write_evaluation(folder, predictions, evaluation, about, results, reference)
    write_pages(folder, predictions, reference, evaluation, about, shown)
    print_evaluation(evaluation, about, console, as_json)
    console.print(f"predictions, scores and pages: {folder}", markup=False)
    return 0
