"""Cards of the contact sheet of a data set."""

import numpy as np

from deixis.data.flickr30k_entities import parse_caption
from deixis.data.sample import Dataset, Entity, Sample
from deixis.show.samples import caption_spans, sample_card, sample_cards


def test_the_seed_decides_which_images_and_boxed_ones_come_first():
    box = (Entity("a", np.array([[0, 0, 9, 9]], float), label="dog"),)
    picture = np.zeros((10, 10, 3), np.uint8)
    samples = [Sample(str(i), (), entities=box if i in (4, 5) else (), pixels=picture) for i in range(1, 6)]
    dataset = Dataset("x", "all", tuple(samples))
    orders = {tuple(card.note for card in sample_cards(dataset, 4, seed)) for seed in range(8)}
    assert len(orders) > 2
    assert all(set(order[:2]) == {"4", "5"} for order in orders)
    assert [c.note for c in sample_cards(dataset, 4, 3)] == [c.note for c in sample_cards(dataset, 4, 3)]


def test_boxes_without_phrases_are_coloured_by_class():
    boxes = {"a": ("dog", [0, 0, 10, 10]), "b": ("cat", [0, 0, 20, 20]), "c": ("dog", [5, 5, 30, 30])}
    entities = tuple(Entity(name, np.array([box], float), label=label) for name, (label, box) in boxes.items())
    marks = sample_card(Sample("x", (), entities=entities, pixels=np.zeros((40, 40, 3), np.uint8))).marks
    assert [(mark.label, mark.box[2]) for mark in marks] == [("dog", 30), ("cat", 20), ("dog", 10)]
    assert marks[0].colour == marks[2].colour != marks[1].colour


def test_a_video_is_drawn_at_the_frame_with_most_boxes():
    walker = Entity("a", np.array([[0, 0, 5, 5], [1, 1, 6, 6]], float), label="man", frames=np.array([0, 2]))
    dog = Entity("b", np.array([[2, 2, 9, 9]], float), label="dog", frames=np.array([2]))
    frames = np.stack([np.full((10, 10, 3), 50 * index, np.uint8) for index in range(4)])
    card = sample_card(Sample("x", (), entities=(walker, dog), pixels=frames))
    assert card.image.getpixel((0, 0)) == (100, 100, 100)
    assert {mark.label: mark.box for mark in card.marks} == {"man": (1, 1, 6, 6), "dog": (2, 2, 9, 9)}


def test_a_caption_keeps_its_text_and_gains_colours():
    caption = parse_caption("[/EN#1/people A man] , tall , has [/EN#2/other [x]".replace("[x]", "a hat]") + " .")
    spans = list(caption_spans(caption, {"1": "#ff0000", "2": "#00ff00"}))
    assert [(span.text.strip(), span.colour, span.glue) for span in spans] == [
        ("A man", "#ff0000", False),
        (", tall, has", None, True),
        ("a hat", "#00ff00", False),
        (".", None, True),
    ]
