"""The matcher's hot paths: one training iteration, scoring all pairs of images and captions; and what comes of it in
a captioner, one iteration of self-critical training.

Run alone on the machine: python benchmarks/matcher.py [--threads 2]
Times are medians; FLOP are those of the matrix products, and the share is against a large matrix product of the same
precision measured in this run. Work that the published code does and this one does not (attended vectors, the backward
pass of pairs that have no gradient) is not counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable

import decoder as captioning
import numpy as np
import torch
from machine import gemm_rate, peak_memory, seconds

from deixis.layers.padding import PaddedRegions
from deixis.methods.scan.losses.triplet import matching_loss
from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.methods.updown.decode import GenerationConfig
from deixis.methods.updown.losses.self_critical import CriticConfig, Images, cider_reward, self_critical
from deixis.methods.updown.network import Decoder, DecoderConfig

REGIONS, WORDS, VOCABULARY = 36, 20, 8000
SAMPLES, SAID = 5, 16  # sentences an image, words of each


def flops(c: ScanConfig, images: int, captions: int, training: bool) -> float:
    """Of the matrix products: the backward pass has twice those of the forward one, but none towards the features."""
    project = 2 * images * REGIONS * c.features * c.embed
    read = 2 * 2 * captions * WORDS * (c.words + c.embed) * 3 * c.embed
    compare = 2 * images * REGIONS * captions * WORDS * (c.embed + REGIONS) + 2 * images * REGIONS**2 * c.embed
    if not training:
        return project + read + compare
    pairs = 3 * captions  # its own image, the hardest other image, the hardest other caption
    again = 3 * 2 * pairs * REGIONS * (WORDS * (c.embed + REGIONS) + REGIONS * c.embed)
    return 2 * project + 3 * read + compare + again


def batch(c: ScanConfig, images: int, captions: int) -> tuple[PaddedRegions, torch.Tensor]:
    torch.manual_seed(0)
    seen = torch.randn(images, REGIONS, c.features)
    mask = torch.ones(images, REGIONS, dtype=torch.bool)
    words = torch.randint(4, c.vocabulary, (captions, WORDS))
    return PaddedRegions(seen, mask, torch.zeros(images, REGIONS, 4), None), words


def iteration(
    matcher: ScanNet, optimiser: torch.optim.Adam, regions: PaddedRegions, words: torch.Tensor, bf16: bool
) -> None:
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        loss = matching_loss(
            matcher, matcher.encode_regions(regions), matcher.encode_words(words), torch.arange(len(words))
        )
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def criticism(images: int, bf16: bool) -> tuple[Callable[[], None], float]:
    """One iteration of self-critical training with CIDEr-D and the greedy baseline, and the FLOP of it."""
    torch.manual_seed(0)
    config = DecoderConfig(vocabulary=7000, features=2048, words=512, hidden=512, attention=512)
    captioner = Decoder(config)
    optimiser = torch.optim.Adam(captioner.parameters(), fused=True)
    random = np.random.default_rng(0)
    captions = {str(i): [[*random.integers(4, 7000, 12).tolist(), 2] for _ in range(5)] for i in range(images)}
    rewards = {"cider": (1.0, cider_reward(captions, end=2))}
    mask = torch.ones(images, REGIONS, dtype=torch.bool)
    seen = Images(
        list(captions), PaddedRegions(torch.randn(images, REGIONS, 2048), mask, torch.zeros(images, REGIONS, 4), None)
    )
    generation = GenerationConfig(max_words=SAID, min_words=SAID)  # every sentence takes all steps

    def run() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = self_critical(captioner, seen, rewards, generation, CriticConfig(samples=SAMPLES))["policy"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    encode, made, learnt = (
        captioning.flops(config, images, REGIONS, images * each, SAID, 1) for each in (0, SAMPLES + 1, SAMPLES)
    )
    return run, made + 3 * learnt - encode


def case(name: str, scale: int) -> None:
    """One line of the table, in a process of its own so that its peak memory is its own."""
    before = peak_memory()
    kind, precision = name.split("-")
    bf16 = precision == "bf16"
    if kind == "critic":
        images = 64 // scale
        iterate, work = criticism(images, bf16)
        tell(f"self-critical, {images} images x {SAMPLES} samples, {precision}", seconds(iterate), work, bf16, before)
        return
    matcher = ScanNet(ScanConfig(vocabulary=VOCABULARY, features=2048))
    images, captions = (128, 128) if kind == "train" else (200, 1000)
    images, captions = images // scale, captions // scale
    regions, words = batch(matcher.config, images, captions)
    work = flops(matcher.config, images, captions, kind == "train")
    if kind == "train":
        optimiser = torch.optim.Adam(matcher.parameters(), fused=True)
        time = seconds(lambda: iteration(matcher, optimiser, regions, words, bf16))
        title = f"training, {images} pairs, {precision}"
    else:

        @torch.no_grad()
        def run() -> None:
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                matcher.scores(matcher.encode_regions(regions), matcher.encode_words(words))

        time, title = seconds(run), f"scoring, {images} images x {captions} captions, {precision}"
    tell(title, time, work, bf16, before)


def tell(title: str, time: float, work: float, bf16: bool, before: int) -> None:
    """Print a line; ``before`` is the memory that the process had without the case."""
    share = work / time / gemm_rate(torch.bfloat16 if bf16 else torch.float32)
    memory = (peak_memory() - before) / 2**20
    print(f"{title:<50}{time * 1e3:9.0f} ms {work / 1e9:9.1f} GFLOP {share:6.0%} of GEMM +{memory:,.0f} MB", flush=True)


CASES = ("train-fp32", "train-bf16", "score-fp32", "score-bf16", "critic-fp32", "critic-bf16")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--case", choices=CASES)
    options.add_argument("--scale", type=int, default=1, help="divide the numbers of images and captions by this")
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.case:
        case(chosen.case, chosen.scale)
        return
    print(f"{chosen.threads} threads; {REGIONS} regions x 2048, {WORDS} words, embedding 1024; ", end="")
    print(f"GEMM {gemm_rate() / 1e9:.0f} GFLOP/s fp32, {gemm_rate(torch.bfloat16) / 1e9:.0f} GFLOP/s bf16", flush=True)
    for name in CASES:
        more = ["--threads", str(chosen.threads), "--scale", str(chosen.scale)]
        subprocess.run([sys.executable, __file__, "--case", name, *more], check=True)


if __name__ == "__main__":
    main()
