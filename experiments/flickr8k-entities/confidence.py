"""Measure the checks of a caption: on validation photographs, and on pictures that are no everyday photographs.

    python experiments/flickr8k-entities/confidence.py deixis-8k --data DATA --features STORE

Prints the information gain and its rank correlation with CIDEr, how often the classifier of the second look is right,
the captions that each check marks, and captions of blank images, screens, drawings and pictures of scikit-image. The
output is kept in confidence.txt.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
import tyro
from PIL import Image, ImageDraw
from skimage import data as photographs
from skimage.util import img_as_ubyte

from deixis.data import Sample
from deixis.evaluation.split import SplitPhotos
from deixis.metrics.captions import caption_scores
from deixis.metrics.references import read_reference
from deixis.pipelines.caption import CaptionOptions, caption_stream
from deixis.pipelines.information_gain import MIN_GAIN, information_gain
from deixis.pipelines.models import Models, load_models
from deixis.pipelines.photo import Photo
from deixis.pipelines.results import CaptionResult
from deixis.pipelines.second_look import CONFIDENT_TEMPLATE_PROB, TEMPLATE_PROB, classify_image
from deixis.types import Candidate
from deixis.vision.store import FeatureStore

CODE = ("def", "return self", "window", "open file", "error", "the quick brown fox", "lorem ipsum", "x = 1", "print")
REAL = ("astronaut", "chelsea", "coffee", "camera", "rocket")  # everyday photographs, more or less
LATER = (
    "retina",
    "horse",
    "logo",
    "immunohistochemistry",
    "microaneurysms",
    "shepp_logan_phantom",
    "checkerboard",
    "colorwheel",
)  # tried after all limits were chosen
OTHER = ("coins", "page", "clock", "text", "moon", "hubble_deep_field", "brick", "grass", "gravel", "cell")


UNCHECKED = CaptionOptions(checks=())


def main(
    captioner: tyro.conf.Positional[str],
    data: Path,
    features: Path,
    grounder: str | None = None,
    limit: int | None = None,
) -> None:
    """Print the measurements.

    Args:
        captioner: a captioner, by name or folder.
        data: the data set.
        features: features of its validation split.
        grounder: the grounder of the captioner, by name or folder; as in `deixis caption`.
        limit: use only this many photographs and this many pictures of each kind.
    """
    torch.set_num_threads(1)
    models = load_models(captioner, grounder, "cpu")
    samples = read_reference(data, "val").samples[:limit]
    photos = SplitPhotos(samples, FeatureStore(features))
    print_gains(models, samples, photos)
    print_classifier(models, samples)
    print_checks(models, samples, photos)
    kinds = {"made": made(), "not everyday": ready(OTHER), "later": ready(LATER), "photographs": ready(REAL)}
    for kind, images in kinds.items():
        print_pictures(models, kind, dict(list(images.items())[:limit]))


def print_gains(models: Models, samples: Sequence[Sample], photos: SplitPhotos) -> None:
    """Print quantiles of the information gain, and how well gain and log-probability predict CIDEr."""
    results = list(caption_stream(photos.values(), models, UNCHECKED))
    cider = cider_of(results, samples)
    gains = np.array([gain_of(result, models) for result in results])
    quality = np.array([cider[result.caption.image] for result in results])
    logprobs = np.array([(result.caption.logprob or 0.0) / (len(result.caption.words) + 1) for result in results])
    print(f"{models.name}: {len(results)} validation photographs, gain in nats per word; limit {MIN_GAIN}")
    print("gain at 5, 10, 25, 50 per cent:", *np.quantile(gains, [0.05, 0.1, 0.25, 0.5]).round(2))
    low = gains < MIN_GAIN
    print(f"below the limit: {low.mean():.1%}; their CIDEr {mean(quality[low]):.3f}, ", end="")
    print(f"of the others {mean(quality[~low]):.3f}")
    for name, values in (("gain", gains), ("log-probability", logprobs)):
        print(f"rank correlation with CIDEr: {name} {rank_correlation(values, quality):.2f}")


def print_classifier(models: Models, samples: Sequence[Sample]) -> None:
    """Print how often a probable class of the whole photograph is in a true caption."""
    named = []  # probability of the most probable class, and whether a true caption has its name
    for sample in samples:
        whole = classify_image(Photo(sample.open()), models.extractor)
        noun = max(whole, key=lambda one: whole[one])
        named.append((whole[noun], any(noun.split()[0] in caption.text.lower() for caption in sample.captions)))
    for low, high in ((CONFIDENT_TEMPLATE_PROB, 1.01), (TEMPLATE_PROB, CONFIDENT_TEMPLATE_PROB)):
        correct = [right for prob, right in named if low <= prob < high]
        print(f"classes with a probability from {low:g}: {len(correct)}, {sum(correct)} of them in a true caption")


def print_checks(models: Models, samples: Sequence[Sample], photos: SplitPhotos) -> None:
    """Print how many captions each check marks, and their CIDEr."""
    results = list(caption_stream(photos.values(), models))
    cider = cider_of(results, samples)
    subjects = [one for one in results if codes(one) & {"subject_not_found", "template_caption"}]
    print(f"subject not found: {len(subjects)}, of them templates: {sum(one.template for one in subjects)}")
    for name, some in (
        ("out of distribution", [one for one in results if "out_of_distribution" in codes(one)]),
        ("with a low match score", [one for one in results if "low_match" in codes(one)]),
        ("with low confidence", [one for one in results if not one.confident]),
        ("without", [one for one in results if one.confident]),
    ):
        value = mean([cider[one.caption.image] for one in some])
        print(f"captions {name}: {len(some)} ({len(some) / len(results):.1%}), their CIDEr {value:.3f}")


def print_pictures(models: Models, kind: str, images: Mapping[str, Image.Image]) -> None:
    """Print gain, residual and caption of pictures of one kind."""
    photos = [Photo(image, name) for name, image in images.items()]
    own = list(caption_stream(photos, models, UNCHECKED))
    results = list(caption_stream(photos, models))
    detector = models.captioner.ood
    for photo, before, result in zip(photos, own, results, strict=True):
        residual = detector.residual(photo.regions(models.extractor)) / detector.limit if detector else float("nan")
        mark = "confident" if result.confident else "low"
        note = f" (instead of: {before.text})" if result.template else ""
        note += " (low match)" if "low_match" in codes(result) else ""
        amounts = f"gain {gain_of(before, models):5.2f}, residual {residual:4.1f}"
        print(f"{kind:13} {photo.name:20} {amounts}  {mark:9} {result.text}{note}")
    ood = sum("out_of_distribution" in codes(one) for one in results)
    print(f"{kind:13} low confidence: {sum(not one.confident for one in results)} of {len(results)}; ", end="")
    print(f"out of distribution (residual over 1): {ood}", flush=True)


def codes(result: CaptionResult) -> set[str]:
    """Return the codes of a result's warnings."""
    return {warning.code for warning in result.warnings}


def gain_of(result: CaptionResult, models: Models) -> float:
    """Return the information gain of a caption that is not a template."""
    candidate = Candidate(result.caption.words, result.caption.logprob, 0.0, result.trace)
    return information_gain(candidate, models.captioner, models.blank)


def cider_of(results: Sequence[CaptionResult], samples: Sequence[Sample]) -> dict[str, float]:
    """Return the CIDEr of each image's caption."""
    references = {sample.image_id: [caption.tokens for caption in sample.captions] for sample in samples}
    hypotheses = {result.caption.image: result.caption.words for result in results}
    scores, _ = caption_scores(hypotheses, references, metrics=("CIDEr",))
    (cider,) = (score for score in scores if score.name == "CIDEr")
    return dict(zip(cider.ids, cider.items, strict=True))


def mean(values: Sequence[float] | np.ndarray) -> float:
    """Return the mean; nan where there are no values."""
    return float(np.mean(values)) if len(values) else float("nan")


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's rank correlation; ties are ranked in order."""
    return float(np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1])


def ready(names: tuple[str, ...]) -> dict[str, Image.Image]:
    """Return pictures of scikit-image, by name."""
    return {name: Image.fromarray(img_as_ubyte(getattr(photographs, name)())).convert("RGB") for name in names}


def made() -> dict[str, Image.Image]:
    """Return blank images, screens of text and drawings, by name."""
    blank = {name: Image.new("RGB", (320, 240), name) for name in ("white", "black", "grey", "red", "blue")}
    screens = {f"screen {seed}": screen(dark=seed % 2 == 0, seed=seed) for seed in range(6)}
    ramp = np.linspace(0, 255, 320)[None, :].repeat(240, 0)
    gradient = Image.fromarray(np.stack([ramp, ramp[::-1], 255 - ramp], -1).astype(np.uint8))
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (240, 320, 3), dtype=np.uint8))
    drawings = {"chart": chart(), "house": house(), "figure": figure()}
    return {**blank, "gradient": gradient, "noise": noise, **screens, **drawings}


def screen(dark: bool, seed: int) -> Image.Image:
    """Draw a window full of text."""
    dice = random.Random(seed)
    image = Image.new("RGB", (640, 400), "#1e1e1e" if dark else "white")
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 0, 640, 24), fill="#444444" if dark else "#dddddd")
    for y in range(34, 390, 14):
        line = " ".join(dice.choice(CODE) for _ in range(dice.randrange(1, 7)))
        ink = dice.choice(("#9cdcfe", "#ce9178", "#dcdcaa")) if dark else "#222222"
        pen.text((20 + 8 * dice.randrange(6), y), line, fill=ink)
    return image


def chart() -> Image.Image:
    """Draw bars on two axes."""
    image = Image.new("RGB", (480, 360), "white")
    pen = ImageDraw.Draw(image)
    pen.line((40, 20, 40, 320, 460, 320), fill="black", width=2)
    for i, (height, ink) in enumerate(zip((40, 90, 140, 200), ("navy", "orange", "green", "crimson"), strict=True)):
        pen.rectangle((60 + i * 90, 320 - height, 120 + i * 90, 320), fill=ink)
    return image


def house() -> Image.Image:
    """Draw a simple house."""
    image = Image.new("RGB", (400, 300), "#cceeff")
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 200, 400, 300), fill="#77bb55")
    pen.rectangle((120, 120, 280, 240), fill="#cc9966", outline="black", width=3)
    pen.polygon([(100, 120), (200, 50), (300, 120)], fill="#aa3333", outline="black")
    pen.ellipse((320, 20, 370, 70), fill="yellow")
    return image


def figure() -> Image.Image:
    """Draw a person of four lines and a circle."""
    image = Image.new("RGB", (300, 300), "white")
    pen = ImageDraw.Draw(image)
    pen.ellipse((125, 40, 175, 90), outline="black", width=4)
    for line in ((150, 90, 150, 190), (100, 130, 200, 130), (150, 190, 110, 260), (150, 190, 190, 260)):
        pen.line(line, fill="black", width=4)
    return image


if __name__ == "__main__":
    tyro.cli(main)
