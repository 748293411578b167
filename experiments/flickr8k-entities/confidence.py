"""How well a captioner's confidence tells photographs from what is none, and good captions from bad ones.

    python experiments/flickr8k-entities/confidence.py RUN FINDER EVALUATION STORE DATA

RUN is a captioner, FINDER the model that judges its beam ("none": nobody), EVALUATION the folder of `deixis eval` of
the two on the validation split, STORE the features of its photographs, DATA the data set. The second look is told too:
how often a classifier is certain of a whole photograph and right about it, and what becomes of the captions.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from skimage import data as photographs
from skimage.util import img_as_ubyte

from deixis.data import Sample, load
from deixis.metrics.score import load_scores
from deixis.pipelines import second_look
from deixis.pipelines.caption import Teller, load_teller
from deixis.pipelines.information_gain import SURE
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
)  # looked at after all was chosen
OTHER = ("coins", "page", "clock", "text", "moon", "hubble_deep_field", "brick", "grass", "gravel", "cell")


def main(run: str, finder: str, evaluation: Path, store: FeatureStore, data: Path) -> None:
    """Print the table."""
    torch.set_num_threads(1)
    teller = load_teller(run, finder, "cpu")
    captioner, judge = teller.captioner, teller.confidence
    scores, _ = load_scores(evaluation / "scores.json")
    cider = dict(zip(scores["CIDEr"].ids, scores["CIDEr"].items, strict=True))
    captions = list(captioner.captions([store[name] for name in cider], list(cider), batch=32))
    gains, quality = np.array(judge.gains(captions)), np.array([cider[caption.image] for caption in captions])
    likely = np.array([(caption.logprob or 0.0) / (len(caption.words) + 1) for caption in captions])
    print(f"{teller.name}: {len(captions)} validation photographs, gain in nats a word; not sure below {SURE}")
    print("gain at 5, 10, 25, 50 per cent:", *np.quantile(gains, [0.05, 0.1, 0.25, 0.5]).round(2))
    print(f"below: {np.mean(gains < SURE):.1%}; CIDEr of these {quality[gains < SURE].mean():.3f}, ", end="")
    print(f"of the others {quality[gains >= SURE].mean():.3f}")
    for name, values in (("gain", gains), ("log-probability", likely)):
        print(f"rank correlation with CIDEr: {name} {rank_correlation(values, quality):.2f}")
    look_twice(teller, store, {sample.image_id: sample for sample in load(data, "val").samples}, cider)
    kinds = {"made": made(), "not everyday": ready(OTHER), "later": ready(LATER), "photographs": ready(REAL)}
    for kind, images in kinds.items():
        regions = [captioner.eyes.look(image) for image in images.values()]
        own = list(captioner.captions(regions))
        told = teller.tell(regions, [image.copy for image in images.values()])
        for name, spoken, gain, seen, one in zip(images, own, judge.gains(own), regions, told, strict=True):
            verdict = "sure" if one.sure else "not sure"
            changed = f" (own: {spoken.caption})" if one.plain else "" if one.fits else " (of another photograph)"
            beside = captioner.familiar.beside(seen) / captioner.familiar.limit if captioner.familiar else float("nan")
            amount = f"gain {gain:5.2f}, strange {beside:4.1f}"
            print(f"{kind:13} {name:20} {amount}  {verdict:8} {one.caption.caption}{changed}")
        print(f"{kind:13} not sure: {sum(not one.sure for one in told)} of {len(told)}", end="; ")
        print(f"strange (over 1): {sum(one.strange for one in told)}")


def look_twice(teller: Teller, store: FeatureStore, samples: Mapping[str, Sample], cider: Mapping[str, float]) -> None:
    """How often the classifier is certain of a validation photograph and right, and which captions are doubted."""
    named = []  # how likely the likeliest name is, and whether a true caption has it
    for sample in samples.values():
        whole = teller.second_look.whole(sample.open())
        noun = max(whole, key=lambda one: whole[one])
        named.append((whole[noun], any(noun.split()[0] in caption.text.lower() for caption in sample.captions)))
    for low, high in ((second_look.SURE, 1.01), (second_look.CERTAIN, second_look.SURE)):
        some = [right for likely, right in named if low <= likely < high]
        print(f"names with a probability from {low:g}: {len(some)}, and {sum(some)} of them stand in a true caption")
    told = teller.tell([store[name] for name in samples], [sample.open for sample in samples.values()], list(samples))
    doubted = [one for one in told if one.doubted]
    print(f"captions doubted: {len(doubted)}, of them named plainly: {sum(one.plain for one in doubted)}")
    for name, which in (
        ("of photographs that are strange", [one for one in told if one.strange]),
        ("taken for those of another photograph", [one for one in told if not one.fits]),
        ("not sure", [one for one in told if not one.sure]),
        ("sure", [one for one in told if one.sure]),
    ):
        worth = np.mean([cider[one.caption.image] for one in which]) if which else float("nan")
        print(f"captions {name}: {len(which)} ({len(which) / len(told):.1%}), their CIDEr {worth:.3f}")


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's, ties in order."""
    return float(np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1])


def ready(names: tuple[str, ...]) -> dict[str, Image.Image]:
    """Pictures that come with scikit-image."""
    return {name: Image.fromarray(img_as_ubyte(getattr(photographs, name)())).convert("RGB") for name in names}


def made() -> dict[str, Image.Image]:
    """Blank images, screens of text, drawings."""
    blank = {name: Image.new("RGB", (320, 240), name) for name in ("white", "black", "grey", "red", "blue")}
    screens = {f"screen {seed}": screen(dark=seed % 2 == 0, seed=seed) for seed in range(6)}
    ramp = np.linspace(0, 255, 320)[None, :].repeat(240, 0)
    gradient = Image.fromarray(np.stack([ramp, ramp[::-1], 255 - ramp], -1).astype(np.uint8))
    noise = Image.fromarray(np.random.default_rng(1).integers(0, 256, (240, 320, 3), dtype=np.uint8))
    drawings = {"chart": chart(), "house": house(), "figure": figure()}
    return {**blank, "gradient": gradient, "noise": noise, **screens, **drawings}


def screen(dark: bool, seed: int) -> Image.Image:
    """A window full of text."""
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
    """Bars on two axes."""
    image = Image.new("RGB", (480, 360), "white")
    pen = ImageDraw.Draw(image)
    pen.line((40, 20, 40, 320, 460, 320), fill="black", width=2)
    for i, (height, ink) in enumerate(zip((40, 90, 140, 200), ("navy", "orange", "green", "crimson"), strict=True)):
        pen.rectangle((60 + i * 90, 320 - height, 120 + i * 90, 320), fill=ink)
    return image


def house() -> Image.Image:
    """A child's drawing."""
    image = Image.new("RGB", (400, 300), "#cceeff")
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 200, 400, 300), fill="#77bb55")
    pen.rectangle((120, 120, 280, 240), fill="#cc9966", outline="black", width=3)
    pen.polygon([(100, 120), (200, 50), (300, 120)], fill="#aa3333", outline="black")
    pen.ellipse((320, 20, 370, 70), fill="yellow")
    return image


def figure() -> Image.Image:
    """A person of five lines and a circle."""
    image = Image.new("RGB", (300, 300), "white")
    pen = ImageDraw.Draw(image)
    pen.ellipse((125, 40, 175, 90), outline="black", width=4)
    for line in ((150, 90, 150, 190), (100, 130, 200, 130), (150, 190, 110, 260), (150, 190, 190, 260)):
        pen.line(line, fill="black", width=4)
    return image


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), FeatureStore(Path(sys.argv[4])), Path(sys.argv[5]))
