"""Time of the fusion model: score and map, double backward at base size, and training steps of the small size.

Run alone on the machine: python benchmarks/fusion.py [--threads 2]
Weights are random. Times are medians; the ratios come from one process each, so that they hold on a busy machine too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from machine import gemm_rate, peak_memory, seconds

from deixis.language.wordpiece import WordPieces
from deixis.methods.albef.config import AlbefConfig, base, small
from deixis.methods.albef.gradcam import enlarge, grad_cam, normalise
from deixis.methods.albef.losses.map_consistency import MapConfig, box_masks, map_consistency
from deixis.methods.albef.network import AlbefNet, Texts
from deixis.methods.albef.recipes import ALBEF_RECIPES
from deixis.methods.albef.train import Batch, Network, map_side

LENGTH = 12  # word pieces of a phrase


def texts(count: int, vocabulary: int) -> Texts:
    torch.manual_seed(0)
    return Texts(torch.randint(1000, vocabulary, (count, LENGTH)), torch.ones(count, LENGTH, dtype=torch.bool))


@torch.no_grad()
def score(model: AlbefNet, images: torch.Tensor, some: Texts) -> None:
    model.match_logits(model.fuse(model.encode_text(some), some, model.encode(images)))


@torch.no_grad()
def mapped(model: AlbefNet, images: torch.Tensor, some: Texts) -> None:
    grad_cam(model, model.encode(images), some)


def pairs(side: int, layers: int = 0) -> None:
    """Time one pair, and one image with eight phrases against one pair."""
    model = AlbefNet(cut(replace(base(), side=side), layers)).eval()
    pixels = model.config.pixels
    image = torch.randn(1, 3, pixels, pixels)
    one, eight = texts(1, model.config.vocabulary), texts(8, model.config.vocabulary)
    forward = seconds(lambda: score(model, image, one))
    with_map = seconds(lambda: mapped(model, image, one))
    together = seconds(lambda: mapped(model, image, eight))
    show(f"base, {pixels} pixels, one pair, score", forward)
    show(f"base, {pixels} pixels, one pair, score and map", with_map, f"{with_map / forward:.2f} of the score alone")
    show(f"base, {pixels} pixels, 8 phrases, scores and maps", together, f"{together / with_map:.2f} of one pair")


def second_derivative(layers: int = 0, count: int = 2) -> None:
    """Time the backward pass of the match score alone, and with the map's loss (the double backward of AMC)."""
    torch.manual_seed(0)
    model = AlbefNet(cut(base(), layers)).train()
    image, some = torch.randn(count, 3, 256, 256), texts(count, model.config.vocabulary)
    masks = box_masks(torch.tensor([[0.2, 0.3, 0.6, 0.7]]).expand(count, -1), 256)

    def step(consistent: bool) -> None:
        model.zero_grad(set_to_none=True)
        encoded = model.encode(image)
        if consistent:
            matched = grad_cam(model, encoded, some)
            terms = map_consistency(enlarge(normalise(matched.maps), 256), masks, MapConfig())
            loss = matched.logits[:, 1].sum() + torch.stack([*terms.values()]).sum()
        else:
            loss = model.match_logits(model.fuse(model.encode_text(some), some, encoded))[:, 1].sum()
        loss.backward()

    single = seconds(lambda: step(False), repeats=3, warm=1)
    double = seconds(lambda: step(True), repeats=3, warm=1)
    show(f"base, {count} pairs, step of the match score", single)
    show(f"base, {count} pairs, step with the map's loss", double, f"{double / single:.2f} of the match score alone")


def show(title: str, time: float, more: str = "") -> None:
    print(f"{title:<52}{time * 1e3:10.0f} ms   {more}".rstrip())


def step(name: str, layers: int = 0) -> None:
    """Time one training step of a small recipe with its own batch size, without reading data."""
    before = peak_memory()
    time = seconds(training_step(name, layers), repeats=3, warm=1)
    memory = (peak_memory() - before) / 2**20
    show(f"{name}, training step of {ALBEF_RECIPES[name].batch_images} images", time, f"+{memory:,.0f} MB")


def training_step(name: str, layers: int = 0) -> Callable[[], None]:
    """Return a function that makes one step."""
    recipe = ALBEF_RECIPES[name]
    config = cut(small(), layers)
    pieces = WordPieces((*WordPieces.specials, *(f"word{i}" for i in range(config.vocabulary - 5))))
    torch.manual_seed(0)
    network = Network(recipe, AlbefNet(config), pieces).train()
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(learning, lr=1e-5, fused=True)
    some = texts(recipe.batch_images, config.vocabulary)
    boxes = torch.tensor([[0.2, 0.3, 0.6, 0.7]]).expand(recipe.batch_images, -1)
    batch = Batch(
        images=torch.randn(recipe.batch_images, config.side, config.side, config.features),
        captions=some,
        targets=some,
        boxed=torch.ones(recipe.batch_images, dtype=torch.bool),
        masks=box_masks(boxes, map_side(config)),
    )

    def run() -> None:
        terms = network(recipe.phases[0], batch, 0.5)
        optimiser.zero_grad()
        torch.stack([*terms.values()]).sum().backward()
        torch.nn.utils.clip_grad_norm_(learning, recipe.schedule.clip_norm)
        optimiser.step()
        network.end_step()

    return run


def cut(config: AlbefConfig, layers: int) -> AlbefConfig:
    """Return a configuration with this number of layers in every encoder; 0: as it is."""
    if not layers:
        return config
    return replace(config, image_layers=layers, text_layers=layers, fusion_layers=layers, map_layer=0)


CASES: dict[str, Callable[[int], None]] = {
    "pairs": partial(pairs, 16),
    "pairs-384": partial(pairs, 24),
    "second-derivative": second_derivative,
    "albef-small": partial(step, "albef-small"),
    "amc-small": partial(step, "amc-small"),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--case", choices=CASES)
    options.add_argument("--layers", type=int, default=0, help="layers of every encoder; 0: as published")
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.case:
        CASES[chosen.case](chosen.layers)
        return
    print(f"{chosen.threads} threads; GEMM {gemm_rate() / 1e9:.0f} GFLOP/s fp32", flush=True)
    for name in CASES:
        more = ["--threads", str(chosen.threads), "--layers", str(chosen.layers)]
        subprocess.run([sys.executable, __file__, "--case", name, *more], check=True)


if __name__ == "__main__":
    main()
