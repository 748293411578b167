"""``deixis eval``: what a model is worth on a split, with its predictions and a page to look at them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.progress import track

from deixis.commands.score import tell
from deixis.errors import DeixisError
from deixis.localize.points import bicubic_maximum
from deixis.metrics.evaluate import Evaluation
from deixis.metrics.formats import Predictions
from deixis.metrics.references import Reference, read_reference
from deixis.metrics.score import save_scores
from deixis.show.page import Shown, caption_page
from deixis.types import GroundedCaption, Grounding, HeatPlace, Place

if TYPE_CHECKING:
    from deixis.methods.updown.model import Captioner
    from deixis.pipelines.load import PhraseGrounder
    from deixis.vision.eyes import Eyes, Photo

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]

ORDER = ("F1_all_per_sent", "CIDEr")
"""What decides on the page which captions are worst and best: the first, and among equals the second."""


def eval(
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")],
    data: Path,
    split: str = "test",
    features: Path | None = None,
    out: Path | None = None,
    finder: str | None = None,
    place: Literal[Place, HeatPlace] | None = None,
    shown: int = 12,
    device: str = "auto",
    threads: int = 0,
    as_json: Annotated[Switch, tyro.conf.arg(name="json")] = False,
    quiet: Switch = False,
) -> int:
    """Evaluate a trained model on a split of a data set.

    A captioner captions every image and grounds the phrases of the true captions; both are scored: caption metrics, F1
    of grounded words, attention accuracy on true sentences, kinds of error. A phrase grounder finds the phrases of the
    true captions; a matcher also searches images for captions and captions for images. With --finder another model has
    a say in which sentences a captioner takes, and finds the boxes of their words; true captions are then not asked
    for.

    The folder of the evaluation has the predictions (captions.jsonl, phrases.jsonl), the scores with their statistics
    for 'deixis compare' (scores.json) and a page of them (scores.html); for a captioner also a page of the worst and
    the best captions (index.html).

    For example: deixis eval runs/updown --data flickr30k --split test

    Args:
        model: a name of the package, or the folder of a model as 'deixis train' leaves it.
        data: the data set.
        split: which split of it.
        features: its feature store; without it, what the model sees in each photograph is found now.
        out: where the evaluation goes; into the model's folder if not given, or runs/NAME for one of the package.
        finder: a model that finds phrases, by name or folder; it judges the sentences of a captioner's beam and gives
            their nouns boxes, and must see the same features.
        place: which region is the box of a word or phrase: the one with the most attention (best; of several branches
            the best of each, merged), or the one that all regions vote for (vote). Of a fusion model's heat map it is
            the region with the most heat by our rule (heat) or by the published one (alpha), or the box around what is
            hot (threshold). As the model has it if not given; with a finder it is the finder's.
        shown: how many of the worst, and of the best, captions the page shows.
        device: where the model computes: auto (the fastest that is here), cpu, cuda, cuda:1, mps.
        threads: of torch; 0: one for each core.
        as_json: write the scores to stdout as JSON.
        quiet: no progress, no notes and no table.
    """
    import torch

    from deixis.evaluation.evaluate import evaluate_captioner, evaluate_finder, joint_supervision, set_place
    from deixis.methods.updown.model import Captioner
    from deixis.pipelines.load import PACKAGE, load_model, model_folder
    from deixis.pipelines.place import together
    from deixis.vision.store import FeatureStore

    if threads:
        torch.set_num_threads(threads)
    talk = Console(stderr=True, quiet=quiet, highlight=False)
    source = model_folder(model)
    loaded = load_model(source, device)
    helper = None if finder is None else finder_for(loaded, finder, device)
    if place is not None:
        set_place(helper or loaded, place)
    with talk.status(f"reading {data}"):
        reference = read_reference(data, split)
    store = None if features is None else FeatureStore(features)
    seen: Mapping[str, Any] = look((helper or loaded).eyes, reference, talk) if store is None else store
    with talk.status(f"{loaded.name} on {len(reference.samples)} images"):
        if isinstance(loaded, Captioner):
            predictions, result = evaluate_captioner(loaded, reference, seen, finder=helper)
        else:
            predictions, result = evaluate_finder(loaded, reference, seen)
    home = Path("runs") / source.name if source.parent == PACKAGE else source
    about = {"model": loaded.name, "supervision": supervision(source)}
    folder = home / f"eval-{split}"
    if finder is not None and helper is not None:
        other = model_folder(finder)
        about |= {"model": together(loaded.name, helper), "finder": helper.name}
        about["supervision"] = joint_supervision(about["supervision"], supervision(other))
        folder = home / f"eval-{split}-{other.name}"
    folder = out or folder
    about |= {"predictions": str(folder), "data": reference.name, "split": reference.split}
    about["reference"] = str(data.resolve() if data.exists() else data)
    if place is not None:
        about["place"] = place
    write(folder, predictions, result, about)
    write_pages(folder, predictions, reference, result, about, shown)
    tell(result, about, talk, as_json)
    talk.print(f"predictions, scores and pages: {folder}", markup=False, soft_wrap=True)
    return 0


def finder_for(model: Captioner | PhraseGrounder, given: str, device: str = "auto") -> PhraseGrounder:
    """The finder that is to place the nouns of a captioner, which sees what the captioner sees."""
    from deixis.methods.updown.model import Captioner
    from deixis.pipelines.load import load_finder

    if not isinstance(model, Captioner):
        raise DeixisError(f"{model.name} finds phrases itself; --finder is for models that write captions.")
    finder = load_finder(given, device)
    sees = "photographs themselves" if finder.eyes is None else f"regions of {finder.eyes.name}"
    if finder.eyes is None or finder.eyes.name != model.eyes.name:
        raise DeixisError(
            f"{finder.name} sees {sees}, and {model.name} regions of {model.eyes.name}; "
            "choose a --finder that was trained on the same features."
        )
    return finder


def look(eyes: Eyes | None, reference: Reference, talk: Console) -> dict[str, Photo]:
    """The regions of every photograph of the split that can be opened; without eyes the photographs themselves."""
    seen: dict[str, Photo] = {}
    for sample in track(reference.samples, "looking", console=talk, transient=True, disable=not talk.is_terminal):
        try:
            seen[sample.image_id] = sample.open() if eyes is None else eyes.look(sample.open())
        except (DeixisError, OSError) as error:
            talk.print(f"{sample.image_id} is left out: {error}", markup=False, soft_wrap=True)
    return seen


def supervision(model: Path) -> str:
    """What the model's recipe says it was shown in training."""
    try:
        return str(json.loads((model / "recipe.json").read_text(encoding="utf-8"))["supervision"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"


def write(folder: Path, predictions: Predictions, result: Evaluation, about: Mapping[str, str]) -> None:
    """Captions and phrases as JSON lines, and the scores; a grounding that was judged has its "kind" of error."""
    captions = []
    for image, caption in predictions.captions.items():
        record, kinds = caption.to_json(), result.kinds.get(image, {})
        for entry in record["groundings"]:
            judged = [kinds[at] for at in range(entry["start"], entry["end"]) if at in kinds]
            entry |= {"kind": judged[0]} if judged else {}
        captions.append(record)
    phrases = [
        {
            "image": mention.image,
            "caption": mention.caption,
            "start": mention.start,
            **without_heat(best).to_phrase_json(about["model"]),
        }
        for mention, (best, *_) in predictions.phrases.items()
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, records in (("captions.jsonl", captions), ("phrases.jsonl", phrases)):
            if records:
                text = "".join(json.dumps(record) + "\n" for record in records)
                (folder / name).write_text(text, encoding="utf-8")
        classes = [[each.name, each.trained, each.asked, each.right] for each in result.classes]
        save_scores(folder / "scores.json", result.scores, {**about, "classes": classes})
    except OSError as error:
        raise DeixisError(f"{folder} cannot be written ({error.strerror}); choose another --out.") from None


def without_heat(found: Grounding) -> Grounding:
    """The grounding, pointing where its heat map was scored; maps of a whole split would be tens of megabytes."""
    return found if found.heat is None else replace(found, heat=None, point=bicubic_maximum(found.heat))


def write_pages(
    folder: Path,
    predictions: Predictions,
    reference: Reference,
    result: Evaluation,
    about: Mapping[str, str],
    shown: int,
) -> None:
    """The worst and the best captions with their pictures, and all scores on a page beside it."""
    from deixis.show.score_page import write_score_page

    write_score_page(folder / "scores.html", result, about)
    if not predictions.captions:
        return
    order = rank_images(result, predictions.captions)
    half = min(shown, len(order) // 2)
    samples = {sample.image_id: sample for sample in reference.samples}

    def pictures(chosen: Sequence[tuple[str, str]]) -> list[Shown]:
        found = []
        for image, note in chosen:
            try:
                found.append(Shown(samples[image].open(), predictions.captions[image], note))
            except (DeixisError, OSError):
                continue  # annotations without photographs can be scored, not shown
        return found

    sections = {"Worst": pictures(order[:half]), "Best": pictures(order[len(order) - half :][::-1])}
    values = {score.name: score.value for score in result.scores}
    headline = ("CIDEr", "BLEU-4", "F1_all", "F1_loc", "attention_accuracy")
    note = " · ".join(f"{name} {values[name]:.3f}" for name in headline if name in values)
    title = f"{about['model']} on {about['data']} {about['split']}"
    links = '<p><a href="scores.html">All scores, with their protocols</a></p>'
    (folder / "index.html").write_text(caption_page(title, sections, note, links), encoding="utf-8")


def rank_images(result: Evaluation, captions: Mapping[str, GroundedCaption]) -> list[tuple[str, str]]:
    """Images with a note of their own scores, worst first: by grounding, then by the words."""
    tables = [
        (s.name, dict(zip(s.ids, s.items, strict=True))) for name in ORDER for s in result.scores if s.name == name
    ]
    rated = []
    for image in captions:
        values = [float(table.get(image, math.nan)) for _, table in tables]
        if not any(map(math.isnan, values)):  # an image without boxes has no F1, and no place in this order
            note = ", ".join(f"{name} {value:.2f}" for (name, _), value in zip(tables, values, strict=True))
            rated.append((values, image, note))
    return [(image, note) for _, image, note in sorted(rated)]
