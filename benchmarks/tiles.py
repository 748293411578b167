"""How much scores of SCAN depend on the tiles in which all pairs are computed, and why.

    python benchmarks/tiles.py --threads 2

A product of another shape rounds its last bits differently. With leak 0, negative similarities become 0. Where all
words of a sentence but one are on the negative side of a region, and this one is 0 up to rounding, the normalisation of
Eq. 4 divides it by itself: its weight is exp(tau) or exp(0), by the sign of a rounding error. The script finds the pair
of the largest difference, counts such regions of it, and computes its scores again in double precision and with a leak.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch
from matcher import batch

from deixis.methods.scan.network import EncodedRegions, EncodedWords, ScanConfig, ScanNet

BLOCKS = (2**21, 2**18, 2**15)
NEAR = 1e-6  # norms below this are rounding errors of similarities of about 1e-2


def flips(matcher: ScanNet, regions: EncodedRegions, words: EncodedWords) -> tuple[int, float, float]:
    """Count regions with a tiny norm, and the largest change of a score where their similarities are set to 0."""
    count, changes = 0, [0.0, 0.0]
    for image, vectors in enumerate(regions.vectors):
        similar = (vectors @ words.vectors.flatten(0, 1).T).view(len(vectors), *words.mask.shape)  # [N, C, T]
        norms = similar.clamp_min(0).norm(dim=2)
        rows, captions = ((norms > 0) & (norms < NEAR)).nonzero(as_tuple=True)
        count += len(rows)
        one = EncodedRegions(regions.vectors[image : image + 1], regions.mask[image : image + 1])
        for caption in captions.unique().tolist():
            part = slice(caption, caption + 1)
            own = EncodedWords(words.vectors[part], words.mask[part], words.counts[part])
            before = similar[None, :, part]
            after = before.clone()
            few = rows[captions == caption]
            after[0, few] = after[0, few].clamp_max(0)
            for number, leak in enumerate((0.0, 0.1)):
                matcher.config = replace(matcher.config, leak=leak)
                scores = [float(matcher._score(each.clone(), one, own)) for each in (before, after)]
                changes[number] = max(changes[number], abs(scores[0] - scores[1]))
    return count, changes[0], changes[1]


@torch.no_grad()
def main() -> None:
    """Print the largest difference between tiles for two leaks, and its cause."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--images", type=int, default=200)
    options.add_argument("--captions", type=int, default=1000)
    options.add_argument("--embed", type=int, default=1024)
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    config = ScanConfig(vocabulary=8000, features=2048, embed=chosen.embed)
    torch.manual_seed(0)
    matcher = ScanNet(config).eval()
    padded, ids = batch(config, chosen.images, chosen.captions)
    regions, words = matcher.encode_regions(padded), matcher.encode_words(ids)
    near = flips(matcher, regions, words)
    print(
        f"{near[0]} of {int(regions.mask.sum()) * len(ids):,} regions and sentences with a norm below {NEAR}; "
        f"rounded to 0 they change a score by up to {near[1]:.1e}, with a leak of .1 by up to {near[2]:.1e}"
    )
    for leak in (0.0, 0.1):
        matcher.config = replace(config, leak=leak)
        tiled = torch.stack([matcher.scores(regions, words, block) for block in BLOCKS])
        difference = tiled.amax(0) - tiled.amin(0)
        image, caption = divmod(int(difference.argmax()), difference.shape[1])
        print(f"leak {leak}: largest difference {difference.max():.1e}, median {difference.median():.1e}")
        one = EncodedRegions(regions.vectors[image : image + 1], regions.mask[image : image + 1])
        own = EncodedWords(*(part[caption : caption + 1] for part in (words.vectors, words.mask, words.counts)))
        similar = one.vectors[0] @ own.vectors[0].T  # [N, T]
        norms = similar.clamp_min(0).norm(dim=1)
        few = int(((norms > 0) & (norms < NEAR)).sum())
        print(
            f"  its image {image}, caption {caption}: {few} regions whose clipped similarities have a norm below {NEAR}"
        )
        print(
            f"  smallest positive norm {float(norms[norms > 0].min()):.1e}, scores {tiled[:, image, caption].tolist()}"
        )
        double = ScanNet(matcher.config).double()
        exact = double.scores(
            EncodedRegions(one.vectors.double(), one.mask), EncodedWords(own.vectors.double(), own.mask, own.counts)
        )
        print(f"  in double precision {float(exact):.8f}")


if __name__ == "__main__":
    main()
