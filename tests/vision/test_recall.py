"""Recall of box proposals: targets, overlaps, thresholds."""

import os
from pathlib import Path

import numpy as np
import pytest

from deixis import boxes as geometry
from deixis import data
from deixis.data.sample import Caption, Dataset, Entity, Sample
from deixis.errors import DeixisError
from deixis.types import Phrase
from deixis.vision import proposals
from deixis.vision.proposals.grid import Grid
from deixis.vision.proposals.measure import Measured, images_with_boxes, make_report, measure_images
from deixis.vision.proposals.recall import Targets, best_overlaps, recall, targets

PACK = Path(
    os.environ.get("DEIXIS_FLICKR30K_ENTITIES")
    or Path(__file__).resolve().parents[3] / "shared" / "data" / "flickr30k-entities-8k"
)
needs_pack = pytest.mark.skipif(
    not PACK.is_dir(), reason="no Flickr30k Entities here; DEIXIS_FLICKR30K_ENTITIES names its folder"
)


def sample() -> Sample:
    entities = (
        Entity("dogs", np.array([[0, 0, 10, 10], [20, 0, 30, 10.0]])),
        Entity("hat", np.array([[5, 5, 9, 9.0]])),
        Entity("unseen", np.zeros((0, 4))),
        Entity("unnamed", np.array([[1, 1, 2, 2.0]])),
    )
    phrases = [
        [Phrase("dogs", 0, 1, entity="dogs", types=("animals",)), Phrase("sky", 1, 2, entity="unseen")],
        [Phrase("two dogs", 0, 2, entity="dogs", types=("animals", "other")), Phrase("it", 2, 3)],
        [Phrase("hat", 0, 1, entity="hat", types=("clothing",))],
    ]
    return Sample("1", tuple(Caption("", (), tuple(each)) for each in phrases), entities=entities)


def test_every_phrase_with_a_box_counts_and_several_boxes_are_one():
    wanted = targets(sample())
    assert wanted.boxes.tolist() == [[0, 0, 30, 10], [0, 0, 30, 10], [5, 5, 9, 9]]
    assert wanted.types == (("animals",), ("animals", "other"), ("clothing",))
    assert wanted.first.tolist() == [True, False, True]
    assert len(targets(Sample("2", ()))) == 0


def test_overlap_is_that_of_the_closest_of_the_first_boxes():
    wanted = Targets(np.array([[0, 0, 10, 10.0]]), (("x",),), np.array([True]))
    boxes = np.array([[0, 0, 100, 100], [0, 0, 10, 20], [0, 0, 5, 5], [0, 0, 10, 10.0]])
    assert best_overlaps(wanted, boxes, (1, 2, 3, 4, 200)).tolist() == [[0.01, 0.5, 0.5, 1, 1]]


def test_recall_includes_the_threshold_and_averages_over_ten():
    found = recall(np.array([[0.5], [0.72], [1.0], [0.2]]), (10,))
    assert found.total == 4
    assert found.recall == {"10": {"0.5": 0.75, "0.7": 0.5}}
    # reached at .5 ... .95: 1, 5 (up to .7), 10 and 0 of ten thresholds
    assert found.average["10"] == pytest.approx((1 + 5 + 10 + 0) / 40)


def test_a_report_counts_phrases_types_and_entities():
    pixels = np.zeros((10, 30, 3), np.uint8)
    seen, empty = (
        Sample(i, sample().captions, entities=sample().entities, pixels=p) for i, p in (("1", pixels), ("2", None))
    )
    dataset = Dataset("own", "val", (seen, empty, Sample("3", ())))
    work = images_with_boxes(dataset)
    assert [each.image_id for each, _ in work] == ["1", "2"]
    outcomes = list(measure_images(work, Grid(limit=5), (1, 5), processes=1))
    assert isinstance(outcomes[0], Measured)
    report = make_report(dataset, Grid(limit=5), (1, 5), outcomes)
    assert (report.images, len(report.skipped), report.all.total, report.by_entity.total) == (1, 1, 3, 2)
    assert report.all.recall["1"]["0.5"] == pytest.approx(2 / 3)  # the whole image is the box of both phrases "dogs"
    assert report.by_entity.recall["1"]["0.5"] == pytest.approx(1 / 2)
    assert {kind: found.total for kind, found in report.by_type.items()} == {"animals": 2, "clothing": 1, "other": 1}
    assert report.by_type["clothing"].recall["1"]["0.5"] == 0
    with pytest.raises(DeixisError, match="None of the 1 images could be used"):
        make_report(dataset, Grid(limit=5), (1, 5), [outcomes[1]])


# On photographs -----------------------------------------------------------------------------------------------------


@needs_pack
def test_the_default_reaches_what_plain_selective_search_does_not():
    """On 30 test photographs; plain selective search and the whole image reach .77 of the phrases with 100 boxes."""
    drawn = [(each, wanted) for each in data.load(PACK, "test").samples[:30] if len(wanted := targets(each))]
    overlaps = []
    for each, wanted in drawn:
        found = proposals.default().propose(np.asarray(each.open()))
        assert len(found) == 100
        assert geometry.iou(found.boxes, found.boxes)[np.triu_indices(100, 1)].max() < 0.99
        overlaps.append(best_overlaps(wanted, found.boxes, (100,)))
    assert recall(np.concatenate(overlaps), (100,)).recall["100"]["0.5"] >= 0.8
