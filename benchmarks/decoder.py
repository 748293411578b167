"""Time of the captioner: one training iteration, one cyclical iteration, greedy decoding of a batch.

Run alone on the machine: python benchmarks/decoder.py [--threads 2]
Times are medians; FLOP are those of the matrix products (backward counted as twice the forward), and the share is
against a large matrix product of the same precision measured in this run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

import numpy as np
import torch
from machine import gemm_rate, peak_memory, seconds

from deixis.layers.padded import RegionArrays
from deixis.methods.updown.decode import GenerationConfig, beam_search
from deixis.methods.updown.inference import ArrayDecoder
from deixis.methods.updown.losses.cross_entropy import cross_entropy
from deixis.methods.updown.losses.cycle import CycleConfig, Localizer, cycle
from deixis.methods.updown.network import Decoder, DecoderConfig
from deixis.methods.updown.sample import greedy


def flops(c: DecoderConfig, images: int, regions: int, captions: int, steps: int, branches: int) -> float:
    """Of one forward pass of teacher forcing, matrix products only."""
    encode = images * regions * c.hidden * (c.features + branches * c.attention) + images * c.features * c.hidden
    word = c.words * 4 * c.hidden  # input gates of the word
    heard = c.hidden * 4 * c.hidden if c.language_to_attention else 0
    attend = c.hidden * 4 * c.hidden + heard + branches * (c.hidden * c.attention + regions * (c.attention + c.hidden))
    speak = c.hidden * 4 * c.hidden + branches * (2 * c.hidden * 4 * c.hidden + c.hidden * c.vocabulary)
    return 2 * (encode + captions * steps * (word + attend + speak))


def batch(images: int, each: int, steps: int, regions: int, features: int, words: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    seen = torch.randn(images, regions, features)
    said = torch.randint(4, words, (images, each, steps + 1))
    return seen, torch.ones(images, regions, dtype=torch.bool), said


def iteration(decoder: Decoder, optimiser: torch.optim.Adam, data: tuple[torch.Tensor, ...], bf16: bool) -> None:
    features, mask, words = data
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        decoded = decoder(decoder.encode(features, mask), words[..., :-1])
        loss = cross_entropy(decoder, decoded, words[..., 1:], 0)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def cyclical(
    decoder: Decoder, localizer: Localizer, optimiser: torch.optim.Adam, data: tuple[torch.Tensor, ...]
) -> None:
    features, mask, words = data
    encoded = decoder.encode(features, mask)
    decoded = decoder(encoded, words[..., :-1])
    terms = cycle(decoder, localizer, encoded, decoded, words, 0)
    optimiser.zero_grad()
    (terms["decode"] + terms["reconstruct"]).backward()
    optimiser.step()


def tell(name: str, time: float, work: float, rate: float, note: str = "") -> None:
    share = work / time / rate
    print(f"{name:<58}{time * 1e3:9.0f} ms {work / 1e9:9.1f} GFLOP {share:6.0%} of GEMM {note}", flush=True)


def case(name: str, scale: int = 1) -> None:
    """Print one line of the table; each has its own process, for its own peak memory. ``scale`` divides all sizes."""
    before = peak_memory()
    small = scaled(scale, words=512, hidden=512, attention=512, features=2048, vocabulary=7000)
    if name.startswith("train"):
        _, branches, precision = name.split("-")
        bf16 = precision == "bf16"
        decoder = Decoder(DecoderConfig(**small, branches=int(branches)))
        optimiser = torch.optim.Adam(decoder.parameters(), fused=True)
        data = batch(13, 5, 16, 36, small["features"], small["vocabulary"])
        work = 3 * flops(decoder.config, 13, 36, 65, 16, int(branches))
        time = seconds(lambda: iteration(decoder, optimiser, data, bf16))
        rate = gemm_rate(torch.bfloat16 if bf16 else torch.float32)
        title = f"training, 65 captions of 13 images, K = {branches}, {precision}"
    elif name == "cyclical":
        sizes = scaled(scale, words=512, hidden=1024, attention=512, features=2048, vocabulary=8639)
        decoder = Decoder(DecoderConfig(**sizes))
        localizer = Localizer(decoder, CycleConfig())
        optimiser = torch.optim.Adam([*decoder.parameters(), *localizer.parameters()], fused=True)
        data = batch(32, 1, 16, 100, sizes["features"], sizes["vocabulary"])
        work = 3 * 2 * flops(decoder.config, 32, 100, 32, 16, 1)
        time = seconds(lambda: cyclical(decoder, localizer, optimiser, data), repeats=3, warm=1)
        rate = gemm_rate()
        title = "cyclical, 32 captions, 100 regions, hidden 1024"
    else:
        decoder = Decoder(DecoderConfig(**small)).eval()
        features, mask, _ = batch(100, 1, 1, 36, small["features"], small["vocabulary"])
        config = GenerationConfig(max_words=16, min_words=16, beam=1)  # every sentence takes all steps
        work = flops(decoder.config, 100, 36, 100, 16, 1)

        arrays = ArrayDecoder(decoder.config, {name: value.numpy() for name, value in decoder.state_dict().items()})
        padded = RegionArrays(features.numpy(), mask.numpy(), np.zeros((100, 36, 4), np.float32), None)

        @torch.no_grad()
        def run() -> None:
            if name == "greedy":
                greedy(decoder, decoder.encode(features, mask), config)
            else:
                beam_search(arrays, arrays.encode(padded), config)

        time, rate, title = seconds(run), gemm_rate(), "greedy, 100 images, 16 words"
        title += "" if name == "greedy" else ", on NumPy"
    tell(title, time, work, rate, f"+{(peak_memory() - before) / 2**20:,.0f} MB")


def scaled(scale: int, **sizes: int) -> dict[str, int]:
    """Return sizes divided by ``scale``."""
    return {name: size // scale for name, size in sizes.items()}


CASES = ("train-1-fp32", "train-1-bf16", "train-4-fp32", "train-4-bf16", "cyclical", "greedy", "greedy-numpy")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--case", choices=CASES)
    options.add_argument("--scale", type=int, default=1, help="divide all sizes of the networks by this")
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.case:
        case(chosen.case, chosen.scale)
        return
    print(f"{chosen.threads} threads; GEMM {gemm_rate() / 1e9:.0f} GFLOP/s fp32, ", end="")
    print(f"{gemm_rate(torch.bfloat16) / 1e9:.0f} GFLOP/s bf16", flush=True)
    for name in CASES:
        more = ["--threads", str(chosen.threads), "--scale", str(chosen.scale)]
        subprocess.run([sys.executable, __file__, "--case", name, *more], check=True)


if __name__ == "__main__":
    main()
