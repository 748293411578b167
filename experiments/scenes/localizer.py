"""Why the cycle does not help on scenes: where the localizer looks, and where the attention that it should teach does.

    python experiments/scenes/localizer.py --work path/to/folder

reads the captioners that ``captioners.py`` trained. For the nouns of true captions it prints how often the favourite
region lies for the most part inside the true box, and how often its IoU with that box is over .5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from captioners import WIDTH
from kept import options
from material import Scenes, naming_things, scenes, whitened
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from deixis import boxes as geometry
from deixis.language.parse import parse
from deixis.layers.padding import pad_ragged, pad_regions
from deixis.methods.updown.losses.cycle import CycleConfig, Localizer
from deixis.methods.updown.model import Captioner
from deixis.methods.updown.network import Decoder, Encoded

IMAGES = 200  # of the test split
Noun = tuple[str, int, int, np.ndarray]  # image, caption, word, true boxes [M, 4]


def nouns(made: Scenes) -> list[Noun]:
    """The head nouns of phrases that have boxes."""
    samples = made.test[:IMAGES]
    parses = iter(parse([caption.text for sample in samples for caption in sample.captions], quiet=True))
    found = []
    for sample in samples:
        for number, caption in enumerate(sample.captions):
            grammar = next(parses)
            for phrase in caption.phrases:
                entity, head = sample.entity(phrase.entity or ""), grammar.head(phrase.start, phrase.end)
                if entity is not None and len(entity.boxes) and head is not None:
                    found.append((sample.image_id, number, head, entity.boxes))
    return found


def measure(
    captioner: Captioner, look: Callable[[Encoded, Tensor], Tensor], made: Scenes, wanted: Sequence[Noun]
) -> str:
    """``look`` gives attention ``[1, C, T, N]`` for words ``[1, C, T + 1]``; both shares, in per cent."""
    seen = {}
    for sample in made.test[:IMAGES]:
        ids = pad_ragged([[captioner.vocabulary.encode(caption.tokens) for caption in sample.captions]], 0)
        with torch.no_grad():
            encoded = captioner.decoder.encode_regions(pad_regions([made.regions[sample.image_id]]))
            seen[sample.image_id] = look(encoded, ids)[0].argmax(-1)
    inside, right = [], []
    for image, number, word, boxes in wanted:
        box = made.regions[image].boxes[int(seen[image][number, word])]
        low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
        shared = np.clip(high - low, 0, None).prod(1).max()
        inside.append(shared > 0.5 * (box[2:] - box[:2]).prod())
        right.append(geometry.iou([box], boxes).max() > 0.5)
    return f"on the thing {100 * np.mean(inside):.1f}, IoU > .5 {100 * np.mean(right):.1f}"


def main() -> None:
    """One line for each captioner and localizer."""
    chosen = options("Where the localizer of Cyclical looks.", ["baseline", "cyclical"])
    torch.set_num_threads(1)
    made = whitened(naming_things(scenes(chosen.work)), WIDTH)
    wanted = nouns(made)
    print(f"{len(wanted)} nouns of {IMAGES} test scenes")
    for row in chosen.rows:
        for seed in chosen.seeds:
            folder = chosen.work / "captioners" / f"{row}-{seed}"
            captioner = Captioner.from_pretrained(folder)
            print(f"{row}, seed {seed}, attention: {measure(captioner, attention(captioner.decoder), made, wanted)}")
            if row == "cyclical":
                # the localizer is in no model, only in the last checkpoint; so are the regions that it knows
                captioner, look = localizer(captioner, folder)
                print(f"{row}, seed {seed}, localizer: {measure(captioner, look, made, wanted)}")


def attention(decoder: Decoder) -> Callable[[Encoded, Tensor], Tensor]:
    """Where the decoder looks as it is made to say the words."""
    return lambda encoded, ids: decoder(encoded, ids[..., :-1]).attention[..., 0, :]


def localizer(captioner: Captioner, folder: Path) -> tuple[Captioner, Callable[[Encoded, Tensor], Tensor]]:
    """Where the localizer finds the words, and the captioner of the same checkpoint."""
    weights = load_file(next(folder.glob("resume-*")) / "weights.safetensors")

    def part(name: str) -> dict[str, Tensor]:
        return {key.removeprefix(name): value for key, value in weights.items() if key.startswith(name)}

    decoder = Decoder(captioner.decoder.config)
    decoder.load_state_dict(part("decoder."))
    place = Localizer(decoder, CycleConfig()).eval()
    place.load_state_dict(part("localizer."))
    last = Captioner(decoder, captioner.vocabulary, captioner.eyes.to_json(), captioner.name)
    return last, lambda encoded, ids: place(encoded, F.relu(decoder.embed(ids[..., 1:])))[0]


if __name__ == "__main__":
    main()
