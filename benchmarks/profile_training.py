"""Where the time of training steps goes: the operations of torch with the most CPU time.

    python benchmarks/profile_training.py --threads 2 [--scale 2]

One step each of cross-entropy, self-critical and cyclical training of captioners, of a matcher, and of AMC (small).
"products" is the share of matrix products; everything else is what fewer or fused operations could save.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import decoder as captioning
import fusion
import matcher as matching
import torch
from torch.profiler import ProfilerActivity, profile

from deixis.methods.scan.network import ScanConfig, ScanNet
from deixis.methods.updown.losses.cycle import CycleConfig, Localizer
from deixis.methods.updown.network import Decoder, DecoderConfig

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addmm_", "aten::linear")


def cross_entropy(scale: int) -> Callable[[], None]:
    sizes = captioning.scaled(scale, words=512, hidden=512, attention=512, features=2048, vocabulary=7000)
    network = Decoder(DecoderConfig(**sizes))
    optimiser = torch.optim.Adam(network.parameters(), fused=True)
    data = captioning.batch(13, 5, 16, 36, sizes["features"], sizes["vocabulary"])
    return lambda: captioning.iteration(network, optimiser, data, False)


def cyclical(scale: int) -> Callable[[], None]:
    sizes = captioning.scaled(scale, words=512, hidden=1024, attention=512, features=2048, vocabulary=8639)
    network = Decoder(DecoderConfig(**sizes))
    localizer = Localizer(network, CycleConfig())
    optimiser = torch.optim.Adam([*network.parameters(), *localizer.parameters()], fused=True)
    data = captioning.batch(32, 1, 16, 100, sizes["features"], sizes["vocabulary"])
    return lambda: captioning.cyclical(network, localizer, optimiser, data)


def self_critical(scale: int) -> Callable[[], None]:
    return matching.criticism(64 // scale, False)[0]


def matcher(scale: int) -> Callable[[], None]:
    network = ScanNet(ScanConfig(vocabulary=matching.VOCABULARY, features=2048))
    optimiser = torch.optim.Adam(network.parameters(), fused=True)
    regions, words = matching.batch(network.config, 128 // scale, 128 // scale)
    return lambda: matching.iteration(network, optimiser, regions, words, False)


CASES = {
    "cross-entropy": cross_entropy,
    "cyclical": cyclical,
    "self-critical": self_critical,
    "matcher": matcher,
    "amc-small": lambda scale: fusion.training_step("amc-small"),
}


def show(name: str, run: Callable[[], None], rows: int) -> None:
    """Print the operations of one step."""
    run()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        run()
    averages = sorted(found.key_averages(), key=lambda each: -each.self_cpu_time_total)
    total = sum(each.self_cpu_time_total for each in averages)
    products = sum(each.self_cpu_time_total for each in averages if each.key in PRODUCTS)
    print(f"{name}: {total / 1e3:.0f} ms of CPU time, products {products / total:.0%}", flush=True)
    for each in averages[:rows]:
        print(f"  {each.key:<48}{each.self_cpu_time_total / total:6.1%} {each.count:6d} calls", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--scale", type=int, default=1)
    options.add_argument("--rows", type=int, default=8)
    options.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    for name in chosen.cases:
        show(name, CASES[name](chosen.scale), chosen.rows)


if __name__ == "__main__":
    main()
