"""Agreement of the parser with spaCy on sentences that a captioner generates: every beam of validation photographs.

python experiments/parser/generated.py path/to/flickr30k-entities --model deixis-8k --images 60
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import tyro

from deixis.data import flickr30k_entities
from deixis.language.parse import Parse, parse_words
from deixis.language.queries import visible_phrases
from deixis.language.spacy_parse import spacy_parse_words
from deixis.pipelines.models import load_captioner
from deixis.types import Phrase


def main(data: tyro.conf.Positional[Path], model: str = "deixis-8k", images: int = 60, beam: int = 16) -> None:
    """Print F1 of noun phrases and of visible phrases, in per cent."""
    captioner = load_captioner(model, "cpu")
    samples = flickr30k_entities.load(data, "val").samples[:images]
    regions = [captioner.extractor.extract(sample.open(), image_id=sample.image_id) for sample in samples]
    found = [candidate.words for one in regions for candidate in captioner.decode([one], beam)[0]]
    sentences = sorted({words for words in found if words})
    ours, theirs = parse_words(sentences), spacy_parse_words(sentences)
    shares = [f1(ours, theirs, phrases) for phrases in (lambda one: one.phrases, visible_phrases)]
    print(f"{len(samples)} photographs, {len(sentences)} different sentences of {model}")
    print(f"noun phrases {shares[0]:.2f}, visible phrases {shares[1]:.2f}")


def f1(ours: Sequence[Parse], theirs: Sequence[Parse], phrases: Callable[[Parse], Sequence[Phrase]]) -> float:
    """F1 of exact spans, in per cent."""
    spans = [[{(x.start, x.end) for x in phrases(one)} for one in parses] for parses in (ours, theirs)]
    same = sum(len(a & b) for a, b in zip(*spans, strict=True))
    return 200 * same / sum(len(each) for row in spans for each in row)


if __name__ == "__main__":
    tyro.cli(main)
