"""Published ALBEF and AMC: import of their files, and evaluation as published."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from deixis.cli import run
from deixis.methods.albef import train as training
from deixis.methods.albef.images import square_pixels
from deixis.methods.albef.inference import ArrayAlbef
from deixis.methods.albef.inputs import clean_text
from deixis.methods.albef.model import AlbefGrounder, encode_text
from deixis.methods.albef.momentum import STATE, MomentumState
from deixis.model_folder import read_supervision
from deixis.pipelines.ground import ground
from deixis.pipelines.photo import Photo
from published_albef import QUEUE, WORDS, Kind, write_checkpoint, write_vocab
from small_models import save_noise


def imported(tmp_path: Path, kind: Kind, **sizes: int) -> tuple[AlbefGrounder, dict[str, torch.Tensor], Path]:
    state = write_checkpoint(tmp_path / f"{kind}.pth", kind, **sizes)
    out, verb = tmp_path / f"model-{kind}", "amc" if kind == "amc" else "albef"
    vocab = write_vocab(tmp_path / "vocab.txt")
    assert run(["import", verb, str(tmp_path / f"{kind}.pth"), "--vocab", str(vocab), "-o", str(out)]) == 0
    return AlbefGrounder.from_pretrained(out, backend="torch"), state, out


@pytest.mark.parametrize("kind", ["pretrained", "fine-tuned", "amc"])
def test_files_are_recognised_by_their_names(tmp_path: Path, kind: Kind) -> None:
    grounder, state, out = imported(tmp_path, kind)
    network, config = grounder.network, grounder.network.config
    assert (config.heads, config.text_layers, config.fusion_layers, config.map_layer) == (12, 6, 6, 2)
    assert (config.pixels, config.word_head) == ((384, False) if kind == "fine-tuned" else (256, True))
    bert = "text_encoder." if kind == "fine-tuned" else "text_encoder.bert."
    for ours, published in (
        (network.text.words.weight, f"{bert}embeddings.word_embeddings.weight"),
        (network.text.layers[5].up.bias, f"{bert}encoder.layer.5.intermediate.dense.bias"),
        (network.layers[2].cross_attention.key.weight, f"{bert}encoder.layer.8.crossattention.self.key.weight"),
        (network.image.positions, "visual_encoder.pos_embed"),
        (network.project_text.bias, "text_proj.bias"),
        (network.match.weight, "itm_head.weight"),
        (network.temperature, "temp"),
    ):
        assert torch.equal(ours, state[published])
    assert grounder.longest == config.positions  # published evaluations do not cut word pieces
    boxes = "boxes of Visual Genome" in read_supervision(out)
    assert boxes == (kind == "amc")


def test_momentum_copy_and_queue_are_kept_for_training(tmp_path: Path) -> None:
    _, state, out = imported(tmp_path, "amc")
    kept = MomentumState.load(out)
    assert kept is not None
    assert torch.equal(kept.images, state["image_queue"].T)
    assert torch.equal(kept.texts, state["text_queue"].T)
    assert (kept.place, len(kept.images)) == (4, QUEUE)
    assert torch.equal(kept.slow["image.positions"], state["visual_encoder_m.pos_embed"])
    assert torch.equal(kept.slow["match.weight"], state["itm_head.weight"])  # the copy has no head of its own
    (out / STATE).unlink()
    AlbefGrounder.from_pretrained(out)  # not needed for use


def test_errors_of_the_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(tmp_path / "albef.pth", "pretrained")
    vocab = write_vocab(tmp_path / "vocab.txt")

    def error(*args: str) -> str:
        assert run(["import", *args, "-o", str(tmp_path / "model")]) == 1
        return capsys.readouterr().err

    file = str(tmp_path / "albef.pth")
    assert "is a checkpoint of ALBEF, not of AMC" in error("amc", file, "--vocab", str(vocab))
    vocab.write_text("\n".join(WORDS[:-1]))
    assert f"has {len(WORDS) - 1} word pieces, and {file} has {len(WORDS)}" in error(
        "albef", file, "--vocab", str(vocab)
    )
    write_vocab(vocab)
    assert "must divide the width" in error("albef", file, "--vocab", str(vocab), "--heads", "7")
    message = error("albef", file, "--vocab", str(vocab), "--fusion-from", "5")
    assert "missing: fusion.0.cross_attention" in message
    assert not (tmp_path / "model").exists()


# Inputs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("A man's red-hat.", "a mans red hat"),
        ('"Two" dogs & a <person>, #1 (left)/right; 5~6*7!?', "two dogs & a person 1 left right 567"),
        ("  many   spaces \n", "many spaces"),
        ("x @ y < z", "x @ y < z"),
    ],
)
def test_texts_are_cleaned_as_published(text: str, clean: str) -> None:
    assert clean_text(text) == clean
    assert clean_text(text, 2) == " ".join(clean.split(" ")[:2])


def text_ids(grounder: AlbefGrounder, text: str) -> tuple[int, ...]:
    return encode_text(grounder.pieces, text, grounder.inputs, grounder.longest)


def test_word_pieces_have_no_sep(tmp_path: Path) -> None:
    grounder, *_ = imported(tmp_path, "amc")
    ids = [WORDS.index(piece) for piece in ("[CLS]", "a", "man", "##s", "red", "hat", "&", "[UNK]")]
    assert text_ids(grounder, "A man's red-hat & @") == tuple(ids)
    texts = grounder.calls.texts(grounder.texts(["a dog", "the red hat"]))
    assert texts.inner().tolist() == [[False, True, True, False], [False, True, True, True]]
    assert len(text_ids(grounder.for_data("refer"), "a " * 60)) == 31
    assert len(text_ids(grounder.for_data("flickr30k_entities"), "a " * 60)) == 40  # 51, and 40 learnt positions


def test_images_are_resized_as_published() -> None:
    """OpenCV's bilinear reads the two nearest pixels, also where it shrinks by four."""
    from PIL import Image

    row = np.array([10, 20, 60, 200, 0, 100, 50, 7], dtype=np.uint8)
    image = Image.fromarray(np.repeat(np.repeat(row[None, :, None], 8, 0), 3, 2))
    pixels = square_pixels(image, 2, "bilinear") * 255
    np.testing.assert_allclose(pixels, np.tile([40.0, 75.0], (3, 2, 1)))
    resized = np.array(image.resize((3, 3), Image.Resampling.BICUBIC))
    np.testing.assert_allclose(square_pixels(image, 3, "bicubic").transpose(1, 2, 0) * 255, resized, rtol=1e-6)


# Evaluation ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def referring(tmp_path: Path) -> Path:
    """Two images with three and one expressions in the official layout."""
    root = tmp_path / "refer"
    (root / "refcoco+").mkdir(parents=True)
    photos = root / "images" / "mscoco" / "images" / "train2014"
    photos.mkdir(parents=True)
    images, annotations, refs = [], [], []
    for image_id, box, texts in (
        (7, [10, 5, 30.5, 20], ["red hat", "a man's hat", "dog"]),
        (9, [0, 0, 50, 39], ["man"]),
    ):
        save_noise(photos / f"{image_id}.jpg", image_id)
        images.append({"id": image_id, "file_name": f"{image_id}.jpg", "width": 60, "height": 40})
        annotations.append({"id": 100 + image_id, "image_id": image_id, "category_id": 1, "bbox": box})
        sentences = [{"sent": text, "raw": text, "tokens": text.split()} for text in texts]
        refs.append({"ref_id": image_id, "ann_id": 100 + image_id, "image_id": image_id, "split": "testA"})
        refs[-1]["sentences"] = sentences
    content = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "hat"}]}
    (root / "refcoco+" / "instances.json").write_text(json.dumps(content))
    (root / "refcoco+" / "refs(unc).p").write_bytes(pickle.dumps(refs, 2))
    return root


def evaluated(capsys: pytest.CaptureFixture[str], model: Path, data: Path, *more: str) -> dict[str, Any]:
    split = ["--split", "refcoco+:unc:testA"]
    assert run(["eval", str(model), "--data", str(data), *split, *more, "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)["scores"]


def test_boxes_of_a_detector_are_selected_as_published(
    tmp_path: Path, referring: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grounder, _, out = imported(tmp_path, "amc")
    boxes = {"7": [[10.2, 5.9, 30.1, 19.4, 0.9], [0, 0, 60, 40, 0.8], [40, 1, 3.7, 9, 0.1]], "9": [[5, 5, 4, 4]]}
    (tmp_path / "dets.json").write_text(json.dumps(boxes))
    capsys.readouterr()
    scores = evaluated(capsys, out, referring, "--proposals", str(tmp_path / "dets.json"))
    lines = (out / "eval-refcoco+:unc:testA-dets" / "phrases.jsonl").read_text().splitlines()
    answers = [json.loads(line) for line in lines]
    assert len(answers) == 4
    photos = referring / "images" / "mscoco" / "images" / "train2014"
    right = []
    for answer in answers:
        image = str(answer["image"])
        (found,) = ground(Photo(photos / f"{image}.jpg"), [answer["phrase"]], grounder.for_data("refer"))
        assert found.heat is not None
        assert found.heat.grid.shape == (24, 24)
        heat = torch.from_numpy(found.heat.grid)[None, None]
        large = F.interpolate(heat, (40, 60), mode="bicubic")[0, 0]
        best, chosen = 0.0, None
        for x, y, w, h, *_ in boxes[image]:
            score = float(large[int(y) : int(y + h), int(x) : int(x + w)].sum()) / (w * h) ** 0.5
            if score > best:
                best, chosen = score, (x, y, w, h)
        assert chosen is not None
        x, y, w, h = chosen
        np.testing.assert_allclose(answer["box"], (x, y, x + w, y + h), atol=1e-4)
        row, column = divmod(int(large.argmax()), 60)
        truth = [10, 5, 40.5, 25] if image == "7" else [0, 0, 50, 39]
        right.append(truth[0] < column < truth[2] and truth[1] < row < truth[3])
    assert scores["pointing"]["value"] == pytest.approx(np.mean(right))
    assert "inputs:384px-bicubic-30words" in scores["accuracy"]["signature"]


def test_an_image_is_encoded_once_for_all_expressions(
    tmp_path: Path, referring: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, out = imported(tmp_path, "amc")
    encoded: list[int] = []
    encode = ArrayAlbef.encode
    monkeypatch.setattr(ArrayAlbef, "encode", lambda self, images: encoded.append(len(images)) or encode(self, images))
    capsys.readouterr()
    evaluated(capsys, out, referring)
    assert encoded == [1, 1]


def test_the_clean_subset(tmp_path: Path, referring: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Images of Visual Genome's training list that are also in COCO are left out."""
    _, _, out = imported(tmp_path, "amc")
    genome = tmp_path / "genome"
    genome.mkdir()
    records = [{"image_id": i, "coco_id": c, "width": 9, "height": 9} for i, c in ((1, 7), (2, 9), (3, None))]
    (genome / "image_data.json").write_text(json.dumps(records))
    (genome / "train.txt").write_text("VG_100K/1.jpg VG_100K/1.xml\n3\n")
    (tmp_path / "other.txt").write_text("2\n")
    (tmp_path / "ids.json").write_text("[7]")
    capsys.readouterr()
    for given, kept in (([genome], 1), ([genome, tmp_path / "other.txt"], 3), ([tmp_path / "ids.json"], 1)):
        scores = evaluated(capsys, out, referring, "--exclude", *map(str, given))
        assert scores["pointing"]["items"] == kept
        assert "testA, 1 of 2 images" in scores["pointing"]["signature"]


def test_errors_of_the_evaluation(tmp_path: Path, referring: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, out = imported(tmp_path, "amc")
    dets = tmp_path / "dets.json"
    common = ["eval", str(out), "--data", str(referring), "--split", "testA", "--proposals", str(dets)]
    for content, message in (
        ('{"7": [[1, 2, 3, 4]]}', "has no boxes for 1 images, such as 9"),
        ('{"7": [[1, 2, 3]]}', "image 7: expected a list of boxes"),
        ("[]", "expected an object {image_id:"),
    ):
        dets.write_text(content)
        assert run(common) == 1
        assert message in capsys.readouterr().err


# Training -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def genome(tmp_path: Path) -> Path:
    """Triplet files of AMC's authors for two photographs."""
    root = tmp_path / "vg"
    (root / "VG_100K").mkdir(parents=True)
    rows = []
    for number, texts in ((1, ["a red hat", "a man"]), (2, ["two dogs"])):
        save_noise(root / "VG_100K" / f"{number}.jpg", number)
        rows += [{"image": f"VG_100K/{number}.jpg", "caption": text, "bbox": [[0, 0, 30, 30]]} for text in texts]
    (root / "vg_descriptions.json").write_text(json.dumps(rows))
    return root


@pytest.mark.parametrize("recipe", ["amc-base", "amc-published"])
def test_amc_is_trained_in_one_command(tmp_path: Path, referring: Path, genome: Path, recipe: str) -> None:
    """From an imported ALBEF on Visual Genome's triplets alone, without a feature store, validated on other data."""
    before, _, start = imported(tmp_path, "pretrained")
    kept = MomentumState.load(start)
    assert kept is not None
    val = ["--val-data", str(referring), "--val-split", "refcoco+:unc:testA"]
    more = ["--phases.0.epochs", "1", "--batch-images", "4", "--accumulate", "1", "--momentum.queue", "8", "--quiet"]
    args = ["train", recipe, "--data", str(genome), *val, "--init-from", str(start), "--out", str(tmp_path / "run")]
    assert run([*args, *more]) == 0
    after = AlbefGrounder.from_pretrained(tmp_path / "run", backend="torch")
    assert after.inputs == before.inputs
    assert after.network.config == before.network.config
    assert not torch.equal(after.network.match.weight, before.network.match.weight)
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["validation"]["pointing"] >= 0
    (checkpoint,) = (tmp_path / "run").glob("resume-*")
    queue = load_file(checkpoint / "weights.safetensors")["momentum.images"]
    pairs = 3 if recipe == "amc-published" else 2  # every text, or one of each image
    newest = torch.cat([kept.images[4:], kept.images[:4]])[-8:]  # of the imported queue, oldest first
    torch.testing.assert_close(queue[pairs:], newest[pairs:])
    assert not torch.equal(queue[:pairs], newest[:pairs])


def test_pairs_of_another_data_set_have_no_boxes(
    tmp_path: Path, referring: Path, genome: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Visual Genome with boxes and pairs beside it, without a feature store."""
    _, _, start = imported(tmp_path, "pretrained")
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    lines = [{"image": f"{n}.jpg", "caption": "a dog on the grass", "split": "train"} for n in (5, 6)]
    for n in (5, 6):
        save_noise(pairs / f"{n}.jpg", n)
    (pairs / "captions.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    boxed: list[int] = []
    real = training.collate

    def collate(*args: Any, **options: Any) -> training.Batch:
        batch = real(*args, **options)
        boxed.append(int(batch.boxed.sum()))
        assert len(batch.boxed) == 4
        return batch

    monkeypatch.setattr(training, "collate", collate)
    val = ["--val-data", str(referring), "--val-split", "refcoco+:unc:testA"]
    args = ["train", "amc-base", "--data", str(genome), str(pairs), *val, "--init-from", str(start)]
    more = ["--phases.0.epochs", "1", "--batch-images", "4", "--accumulate", "1", "--momentum.queue", "8", "--quiet"]
    assert run([*args, "--out", str(tmp_path / "run"), *more]) == 0
    assert boxed == [2]
    losses = json.loads((tmp_path / "run" / "log.jsonl").read_text())["losses"]
    assert {"contrast", "match", "mean", "max"} <= losses.keys()
    card = (tmp_path / "run" / "README.md").read_text()
    assert "vg (vg_triplets): 2 training images" in card
    assert "pairs (pairs): 2 training images" in card


def test_a_fine_tuned_model_is_trained_without_masked_words(
    tmp_path: Path, referring: Path, genome: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, start = imported(tmp_path, "fine-tuned", side=4)
    val = ["--val-data", str(referring), "--val-split", "refcoco+:unc:testA"]
    args = ["train", "amc-base", "--data", str(genome), *val, "--init-from", str(start), "--out", str(tmp_path / "run")]
    more = ["--phases.0.epochs", "1", "--momentum.queue", "8", "--quiet"]
    assert run([*args, *more]) == 1
    assert "has no head for masked words" in capsys.readouterr().err
    assert run([*args, *more, "--words", "0"]) == 0
    assert "words" not in json.loads((tmp_path / "run" / "log.jsonl").read_text())["losses"]
