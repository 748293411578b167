"""Time of the fusion model: match score and map at base size, and one training step of the small size.

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
from deixis.methods.albef.gradcam import grad_cam
from deixis.methods.albef.losses.map_consistency import box_masks
from deixis.methods.albef.network import AlbefConfig, AlbefNet, Texts, base, small
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


def pairs(layers: int = 0) -> None:
    """Time one pair, and one image with eight phrases against eight calls."""
    model = AlbefNet(cut(base(), layers)).eval()
    image = torch.randn(1, 3, model.config.pixels, model.config.pixels)
    one, eight = texts(1, model.config.vocabulary), texts(8, model.config.vocabulary)
    forward = seconds(lambda: score(model, image, one))
    with_map = seconds(lambda: mapped(model, image, one))
    together = seconds(lambda: mapped(model, image, eight))
    print(f"base, one pair, match score{forward * 1e3:30.0f} ms")
    print(f"base, one pair, match score and map{with_map * 1e3:22.0f} ms   {with_map / forward:.2f} of the score alone")
    share = together / (8 * with_map)
    print(f"base, one image with 8 phrases, scores and maps{together * 1e3:10.0f} ms   {share:.2f} of 8 separate calls")


def step(name: str, layers: int = 0) -> None:
    """Time one training step of a small recipe with its own batch size, without reading data."""
    recipe = ALBEF_RECIPES[name]
    config = cut(small(), layers)
    before = peak_memory()
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

    time = seconds(run, repeats=3, warm=1)
    memory = (peak_memory() - before) / 2**20
    title = f"{name}, training step of {recipe.batch_images} images"
    print(f"{title:<47}{time * 1e3:10.0f} ms   +{memory:,.0f} MB")


def cut(config: AlbefConfig, layers: int) -> AlbefConfig:
    """Return a configuration with this number of layers in every encoder; 0: as it is."""
    if not layers:
        return config
    return replace(config, image_layers=layers, text_layers=layers, fusion_layers=layers, map_layer=0)


CASES: dict[str, Callable[[int], None]] = {
    "pairs": pairs,
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
