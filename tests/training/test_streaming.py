"""Streamed annotations: training data of Visual Genome on disk, with a bound on the samples in memory."""

import gc
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.data import Sample
from deixis.data.spool import Spool, kept
from deixis.data.visual_genome import load
from deixis.language.wordpiece import WordPieces
from deixis.methods.albef.inputs import InputConfig
from deixis.methods.albef.model import AlbefGrounder
from deixis.methods.albef.network import AlbefConfig
from deixis.methods.albef.recipes import ALBEF_RECIPES, AlbefRecipe
from deixis.methods.albef.train import Example, find_triplets, make_examples
from deixis.runs.run import run_recipe
from deixis.training.data import TrainingData
from deixis.training.recipe import Phase

TINY = AlbefConfig(
    *(0, 8, 2, 8, 40, 1, 1, 0.0, 4, 0, 4, 8, 2, 8, 1, 4),
    map_layer=0,
)


def recipe(**changes: object) -> AlbefRecipe:
    return replace(
        ALBEF_RECIPES["amc-base"],
        model=TINY,
        inputs=InputConfig(),
        text="fresh",
        phases=(Phase(1, "amc"),),
        batch_images=4,
        min_count=1,
        min_area=0.01,
        workers=0,
        monitor="R@1",
        **changes,
    )


def genome(root: Path, images: int) -> Path:
    """A folder of Visual Genome with photographs of 20 by 16 pixels, three regions and two objects each."""
    root.mkdir()
    (root / "VG_100K").mkdir()
    numbers = range(1, images + 1)
    rng = np.random.default_rng(0)
    about, regions, objects = [], [], []
    for number in numbers:
        pixels = rng.integers(0, 255, (16, 20, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / "VG_100K" / f"{number}.jpg")
        about.append({"image_id": number, "url": f"h/VG_100K/{number}.jpg", "width": 20, "height": 16, "coco_id": None})
        box = {"x": 0, "y": 0, "width": 10, "height": 10}
        texts = ("a red dog", f"a cat number {number}", "the grass")
        described = [{"region_id": 10 * number + n, "phrase": text, **box} for n, text in enumerate(texts)]
        regions.append({"image_id": number, "regions": described})
        corner = {"y": 0, "w": 8, "h": 8}
        named = [{"object_id": 10 * number + n, "names": ["dog"], "x": 8 * n, **corner} for n in range(2)]
        objects.append({"image_id": number, "objects": named})
    for name, records in (("image_data", about), ("region_descriptions", regions), ("objects", objects)):
        (root / f"{name}.json").write_text(json.dumps(records))
    (root / "train.txt").write_text("".join(f"VG_100K/{n}.jpg {n}\n" for n in numbers if n % 5))
    (root / "val.txt").write_text("".join(f"VG_100K/{n}.jpg {n}\n" for n in numbers if n % 5 == 0))
    return root


def resident(kind: type) -> int:
    """Objects of a class that are alive."""
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


def test_items_of_a_spool_are_those_that_were_given() -> None:
    items = [{"number": n, "text": "x" * n} for n in range(50)]
    spool = Spool(iter(items))
    assert len(spool) == 50
    assert list(spool) == items
    assert spool[7] == items[7]
    assert spool[-1] == items[-1]
    assert spool[3:9:2] == items[3:9:2]
    with pytest.raises(IndexError):
        spool[50]
    even = kept(spool, lambda item: item["number"] % 2 == 0)
    assert isinstance(even, Spool)
    assert list(even) == items[::2]
    assert list(even.select(lambda item: item["number"] > 40)) == items[42::2]
    assert kept(items, lambda item: item["number"] < 2) == items[:2]
    assert len(Spool(())) == 0


@pytest.mark.parametrize("images", [40, 160])
def test_memory_holds_few_samples_however_large_the_file(tmp_path: Path, images: int) -> None:
    """Reading, selecting, triplets and examples keep at most two training samples at a time."""
    before = resident(Sample)
    data = TrainingData.from_folder(genome(tmp_path / "vg", images), None).usable()
    validation = len(data.validation)
    assert (len(data.training), validation) == (images * 4 // 5, images // 5)
    assert resident(Sample) - before <= validation + 2
    pieces = WordPieces.build(["a red dog cat number the grass"], 1)
    found = recipe()
    most = 0

    def counted(samples: object) -> object:
        nonlocal most
        for number, sample in enumerate(samples):
            if number % 10 == 0:
                most = max(most, resident(Sample))
            yield sample

    examples = Spool(make_examples(found, counted(data.training), pieces, find_triplets(found, data)))
    assert most - before <= validation + 2
    assert resident(Example) == 0
    assert len(examples) == images * 4 // 5
    assert [example.image_id for example in examples] == [sample.image_id for sample in load(tmp_path / "vg", "train")]
    assert examples[0].targets


def test_a_run_on_streamed_annotations_is_that_of_loaded_ones(tmp_path: Path) -> None:
    """The same weights and log as with all samples in memory."""
    root = genome(tmp_path / "vg", 20)
    streamed = TrainingData.from_folder(root, None)
    assert isinstance(streamed.training, Spool)
    loaded = replace(streamed, training=list(streamed.training))
    logs, hashes = [], []
    for name, data in (("streamed", streamed), ("loaded", loaded)):
        run_recipe(recipe(), data, tmp_path / name)
        logs.append((tmp_path / name / "log.jsonl").read_text())
        hashes.append(AlbefGrounder.from_pretrained(tmp_path / name).hash)
    assert logs[0] == logs[1]
    assert hashes[0] == hashes[1]


def test_no_epochs_save_the_initial_model(tmp_path: Path) -> None:
    data = TrainingData.from_folder(genome(tmp_path / "vg", 20), None)
    run_recipe(replace(recipe(), phases=(Phase(0, "amc"),)), data, tmp_path / "run")
    assert AlbefGrounder.from_pretrained(tmp_path / "run").network.config.side == 4
    assert "R@1" in json.loads((tmp_path / "run" / "metrics.json").read_text())["validation"]
