"""The grounder's hot paths: one training iteration, and the latency of grounding 1, 10 and 50 phrases.

Run alone on the machine: python benchmarks/refiner.py [--threads 2]
Times are medians. The training iteration is the whole of ReIR (reconstruction at both stages, ranking over all pairs,
self-taught regression, relations, Adam) for 10 sentences with 4 phrases each and 50 boxes an image. The share is
against a large matrix product measured in this run. Latency is per photograph: regions alone (proposals and backbone),
then phrases whose parses and vectors are cached, then new phrases.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from machine import gemm_rate, peak_memory, seconds

from deixis.data.scenes import make_scene
from deixis.language.descriptions import Description
from deixis.language.queries import phrase_queries
from deixis.language.relations import Relation
from deixis.language.vocabulary import Vocabulary
from deixis.layers.padding import PaddedRegions
from deixis.layers.text_vectors import WIDTH
from deixis.methods.reir.model import ReirGrounder
from deixis.methods.reir.network import ReirConfig, ReirNet
from deixis.methods.reir.phrases import pad_phrases
from deixis.methods.reir.recipes import REIR_RECIPES
from deixis.methods.reir.train import Batch, Network
from deixis.training.recipe import Phase
from deixis.vision.extractor import default_extractor

SENTENCES, PHRASES, BOXES, WORDS = 10, 4, 50, 7000
VOCABULARY = Vocabulary.build([[f"w{i}" for i in range(WORDS)]], minimum=1)


def batch(features: int) -> Batch:
    """Ten images with one sentence of four phrases each."""
    random = np.random.default_rng(0)
    torch.manual_seed(0)
    spans = tuple((3 * p, 3 * p + 3) for p in range(PHRASES))
    relations = tuple(Relation(p, "on", p + 1) for p in range(PHRASES - 1))
    said = [[Description(tuple(f"w{i}" for i in random.integers(0, WORDS, 12)), spans, relations)]] * SENTENCES
    low = torch.rand(SENTENCES, BOXES, 2) / 2
    boxes = torch.cat([low, low + 0.1 + torch.rand(SENTENCES, BOXES, 2) / 3], -1)
    mask = torch.ones(SENTENCES, BOXES, dtype=torch.bool)
    phrases = replace(
        pad_phrases(said, VOCABULARY, {"on": 1}, embed=False), vectors=torch.rand(SENTENCES, PHRASES, WIDTH)
    )
    regions = PaddedRegions(torch.randn(SENTENCES, BOXES, features), mask, boxes, None)
    return Batch(regions, phrases, torch.rand(SENTENCES, BOXES, WIDTH))


def flops(c: ReirConfig) -> float:
    """Of one forward pass, matrix products only."""
    words, phrases, regions = SENTENCES * 12, SENTENCES * PHRASES, SENTENCES * BOXES
    kept, spelled = phrases * c.keep, phrases * 4
    read = words * 4 * c.width * (c.words + c.width)
    see = regions * c.width * c.features
    pair = 2 * c.width * c.hidden  # F_cls and F_reg of one side
    match = (phrases + regions) * pair + (phrases + kept) * pair + phrases * regions * c.hidden  # ranking: all pairs
    graph = phrases * 2 * c.width * c.hidden
    said = spelled * (4 * c.hidden * (c.words + c.hidden) + c.hidden * c.vocabulary)
    spoken = 2 * (phrases * 4 * c.hidden * c.width + said)  # both stages
    return 2.0 * (read + see + match + graph + spoken)


def training(name: str, scale: int = 1) -> None:
    """Print one line for an iteration at the sizes of a recipe; ``scale`` divides the sizes of the network."""
    before = peak_memory()
    recipe = replace(REIR_RECIPES[name], self_taught=replace(REIR_RECIPES[name].self_taught, warmup=0.0))
    sizes = {name: getattr(recipe.model, name) // scale for name in ("words", "width", "hidden")}
    config = replace(recipe.model, **sizes, vocabulary=len(VOCABULARY), features=2048 // scale)
    network = Network(recipe, config, [1])
    optimiser = torch.optim.Adam(network.parameters(), fused=True)
    data = batch(config.features)

    def iteration() -> None:
        terms = network(Phase(epochs=1), data, 0.5)
        assert len(terms) == 5
        optimiser.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        optimiser.step()

    time, work = seconds(iteration), 3 * flops(config)
    share = work / time / gemm_rate()
    title = f"training, {name}, {SENTENCES} sentences x {PHRASES} phrases x {BOXES} boxes"
    memory = (peak_memory() - before) / 2**20
    print(
        f"{title:<66}{time * 1e3:8.0f} ms {work / 1e9:7.1f} GFLOP {share:5.0%} of GEMM +{memory:,.0f} MB",
        flush=True,
    )


def latency(counts: tuple[int, ...] = (1, 10, 50)) -> None:
    """Extract the regions of a photograph, then ground different numbers of phrases in it."""
    extractor = default_extractor()
    image = make_scene(0, 0, size=320).open()
    regions = extractor.extract(image)
    time = seconds(lambda: extractor.extract(image))
    print(f"{'regions of a photograph of 320 pixels':<66}{time * 1e3:8.0f} ms", flush=True)
    config = replace(REIR_RECIPES["reir-small"].model, vocabulary=len(VOCABULARY), features=regions.features.shape[1])
    grounder = ReirGrounder(ReirNet(config), VOCABULARY, extractor.to_json(), "benchmark")

    def ground(phrases: Iterable[str]) -> None:
        grounder.ground(regions, phrase_queries(list(phrases)))

    ground(["anything"])  # loads the parser, the text encoder and the vectors of the class names
    for count in counts:
        fresh = (f"a thing number {i}" for i in itertools.count(1000 * count))
        known = [f"a dog number {i}" for i in range(count)]
        new = seconds(lambda n=count, f=fresh: ground(itertools.islice(f, n)))
        old = seconds(lambda k=known: ground(k))
        title = f"grounding {count} phrase{'s' if count > 1 else ''}, reir-small, {len(regions)} regions"
        print(f"{title:<66}{old * 1e3:8.1f} ms known, {new * 1e3:8.1f} ms new", flush=True)


CASES = ("reir", "reir-small", "latency")


def main() -> None:
    """Each case in a process of its own, so that its peak memory is its own."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--case", choices=CASES)
    options.add_argument("--scale", type=int, default=1, help="divide the sizes of the trained networks by this")
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.case == "latency":
        with tempfile.TemporaryDirectory() as folder:
            os.environ["DEIXIS_CACHE"] = folder  # new phrases are new in the next run too
            latency()
        return
    if chosen.case:
        training(chosen.case, chosen.scale)
        return
    print(f"{chosen.threads} threads; GEMM {gemm_rate() / 1e9:.0f} GFLOP/s", flush=True)
    for name in CASES:
        more = ["--threads", str(chosen.threads), "--scale", str(chosen.scale)]
        subprocess.run([sys.executable, __file__, "--case", name, *more], check=True)


if __name__ == "__main__":
    main()
