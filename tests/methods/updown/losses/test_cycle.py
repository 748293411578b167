"""The cycle against the published code's numbers, its gradients, and its variants."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.methods.updown.losses.cycle import CycleConfig, Localizer, cycle
from deixis.methods.updown.network import Decoder, DecoderConfig, Encoded

GOLDEN = Path(__file__).parents[3] / "golden" / "cyclical.npz"
PAD = 29  # a word that no golden caption uses

NAMES = {  # the published parameter -> ours
    "w/decoder.att_lstm": "attention_lstm",
    "w/decoder.lang_lstm": "language_lstm",
    "w/decoder.soft_attn.h2attn": "query",
    "w/decoder.soft_attn.alpha_net.weight": "energy",
    "w/embed.0.weight": "embed.weight",
    "w/logit": "output",
}


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    with np.load(GOLDEN, allow_pickle=False) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


@pytest.fixture(scope="module")
def published(golden: dict[str, Tensor]) -> tuple[Decoder, Localizer, Encoded]:
    """Ours with the published weights. The numbers begin behind the projections of regions and grid."""
    sizes = {"vocabulary": 30, "features": 1, "words": 16, "hidden": 24, "attention": 12}
    decoder = Decoder(DecoderConfig(**sizes, grid=1)).eval()
    weights = decoder.state_dict()
    for theirs, ours in NAMES.items():
        for name, value in golden.items():
            if name.startswith(theirs):
                assert ours + name.removeprefix(theirs) in weights
                weights[ours + name.removeprefix(theirs)] = value
    decoder.load_state_dict(weights)
    localizer = Localizer(decoder, CycleConfig())
    place = "w/localizer.soft_attn.h2attn."
    localizer.query.load_state_dict({part: golden[place + part] for part in ("weight", "bias")})
    encoded = Encoded(
        regions=golden["pool"],
        keys=golden["p_pool"].unsqueeze(2),
        image=decoder.image_gates(golden["fc"]),
        mask=~golden["roi_mask"],
        grid=golden["conv"],
        grid_keys=golden["p_conv"],
    )
    return decoder, localizer, encoded


def captions(golden: dict[str, Tensor]) -> Tensor:
    """bos (0) and the words ``[4, 1, 8]``; the first 0 behind a sentence is its end and counts, later ones are pad."""
    cap = golden["cap"]
    assert not (cap == PAD).any()
    ended = (cap == 0).cumsum(1) > 1
    return torch.cat([torch.zeros(4, 1, dtype=torch.long), cap.masked_fill(ended, PAD)], 1).unsqueeze(1)


def test_decoding_agrees(published: tuple[Decoder, Localizer, Encoded], golden: dict[str, Tensor]) -> None:
    decoder, _, encoded = published
    inputs = torch.cat([torch.zeros(4, 1, dtype=torch.long), golden["cap"][:, :-1]], 1).unsqueeze(1)
    out = decoder(encoded, inputs)
    logprobs = decoder.word_logprobs(out.states)[:, 0, :, 0]
    torch.testing.assert_close(logprobs, golden["logprobs"], atol=1e-5, rtol=0)
    torch.testing.assert_close(out.attention[:, 0, :, 0], golden["roi_attn"], atol=1e-5, rtol=0)
    assert torch.equal(logprobs.argmax(-1), golden["greedy_words"])


def test_localizer_and_reconstruction_agree(
    published: tuple[Decoder, Localizer, Encoded], golden: dict[str, Tensor]
) -> None:
    decoder, localizer, encoded = published
    beta, on_grid = localizer(encoded, decoder.embed(golden["greedy_words"]).relu().unsqueeze(1))
    assert on_grid is not None
    regions, cells = beta[:, 0] @ encoded.regions, on_grid[:, 0] @ encoded.grid
    torch.testing.assert_close(beta[:, 0], golden["loc_attn"], atol=1e-5, rtol=0)
    torch.testing.assert_close(regions, golden["loc_feat"], atol=1e-5, rtol=0)
    torch.testing.assert_close(cells, golden["loc_conv"], atol=1e-5, rtol=0)
    inputs = torch.cat([torch.zeros(4, 1, dtype=torch.long), golden["cap"][:, :-1]], 1).unsqueeze(1)
    rebuilt = decoder(encoded, inputs, attended=(regions + cells)[:, None, :, None])
    torch.testing.assert_close(
        decoder.word_logprobs(rebuilt.states)[:, 0, :, 0], golden["recon_logprobs"], atol=1e-5, rtol=0
    )


def test_losses_agree(published: tuple[Decoder, Localizer, Encoded], golden: dict[str, Tensor]) -> None:
    decoder, localizer, encoded = published
    words = captions(golden)
    decoded = decoder(encoded, words[..., :-1])
    terms = cycle(decoder, localizer, encoded, decoded, words, PAD)
    torch.testing.assert_close(2 * terms["decode"], golden["lm_loss"], atol=1e-5, rtol=0)
    torch.testing.assert_close(2 * terms["reconstruct"], golden["recon_loss"], atol=1e-5, rtol=0)
    total = terms["decode"] + terms["reconstruct"]
    torch.testing.assert_close(total, golden["total_0p5_0p5"], atol=1e-5, rtol=0)


SIZES = {"vocabulary": 11, "features": 6, "words": 4, "hidden": 6, "attention": 4, "dropout": 0.0}
WORDS = torch.tensor([[[1, 4, 5, 2], [1, 6, 2, 0]], [[1, 8, 9, 2], [1, 3, 2, 0]]])
VISUAL = torch.tensor([[[1, 0, 0], [1, 0, 0]], [[0, 1, 0], [1, 0, 0]]]).bool()
VARIANTS = {
    "paper": CycleConfig(),
    "zero-loss": CycleConfig(visual="zero-loss"),
    "zero-representation": CycleConfig(visual="zero-representation"),
    "mlp": CycleConfig(localizer="mlp"),
    "state": CycleConfig(localizer="state"),
    "word+state": CycleConfig(localizer="word+state"),
    "consistency": CycleConfig(consistency=1.0),
}


def setting(config: CycleConfig, branches: int = 1) -> tuple[Decoder, Localizer, Tensor, Tensor]:
    torch.manual_seed(0)
    decoder = Decoder(DecoderConfig(**SIZES, branches=branches)).double()
    features = torch.randn(2, 4, 6, dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    return decoder, Localizer(decoder, config).double(), features, mask


def total(decoder: Decoder, localizer: Localizer, features: Tensor, mask: Tensor) -> Tensor:
    encoded = decoder.encode(features, mask)
    terms = cycle(decoder, localizer, encoded, decoder(encoded, WORDS[..., :-1]), WORDS, 0, VISUAL)
    return torch.stack(list(terms.values())).sum()


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("branches", [1, 2])
def test_gradients_are_right(name: str, branches: int) -> None:
    decoder, localizer, features, mask = setting(VARIANTS[name], branches)

    def run(features: Tensor, *parameters: Tensor) -> Tensor:
        return total(decoder, localizer, features, mask)

    inputs = (features.requires_grad_(), *decoder.parameters(), *localizer.parameters())
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


def test_reconstruction_teaches_the_localizer_and_decoding_does_not() -> None:
    decoder, localizer, features, mask = setting(CycleConfig())
    encoded = decoder.encode(features, mask)
    terms = cycle(decoder, localizer, encoded, decoder(encoded, WORDS[..., :-1]), WORDS, 0)
    grads = [torch.autograd.grad(term, localizer.query.weight, allow_unused=True)[0] for term in terms.values()]
    assert grads[0] is None
    assert grads[1].abs().sum() > 0


def test_words_that_cannot_be_seen_do_not_count_in_zero_loss() -> None:
    decoder, localizer, features, mask = setting(CycleConfig(visual="zero-loss"))
    encoded = decoder.encode(features, mask)
    decoded = decoder(encoded, WORDS[..., :-1])
    terms = cycle(decoder, localizer, encoded, decoded, WORDS, 0, VISUAL)
    hint = decoder.embed(decoder.word_logprobs(decoded.states[..., 0, :]).argmax(-1)).relu()
    seen = torch.einsum("ictn,inh->icth", localizer(encoded, hint)[0], encoded.regions)
    logprobs = decoder.word_logprobs(decoder(encoded, WORDS[..., :-1], attended=seen.unsqueeze(3)).states[..., 0, :])
    picked = logprobs.gather(-1, WORDS[..., 1:].unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(terms["reconstruct"], -0.5 * picked[VISUAL].mean())


def test_variants_that_need_to_know_what_is_visual_say_so() -> None:
    decoder, localizer, features, mask = setting(CycleConfig(visual="zero-loss"))
    encoded = decoder.encode(features, mask)
    with pytest.raises(ValueError, match="zero-loss"):
        cycle(decoder, localizer, encoded, decoder(encoded, WORDS[..., :-1]), WORDS, 0)


def test_zero_loss_is_zero_for_a_batch_without_noun_and_verb() -> None:
    decoder, localizer, features, mask = setting(CycleConfig(visual="zero-loss"))
    encoded = decoder.encode(features, mask)
    decoded = decoder(encoded, WORDS[..., :-1])
    terms = cycle(decoder, localizer, encoded, decoded, WORDS, 0, torch.zeros_like(VISUAL))
    assert terms["reconstruct"].item() == 0
    assert torch.isfinite(terms["decode"])


def test_label_smoothing_counts_in_both_losses() -> None:
    decoder, localizer, features, mask = setting(CycleConfig())
    encoded = decoder.encode(features, mask)
    decoded = decoder(encoded, WORDS[..., :-1])
    plain = cycle(decoder, localizer, encoded, decoded, WORDS, 0)
    smooth = cycle(decoder, localizer, encoded, decoded, WORDS, 0, smoothing=0.3)
    targets = WORDS[..., 1:]
    logprobs = decoder.word_logprobs(decoded.states[..., 0, :]).detach().numpy()
    picked = [
        0.7 * logprobs[*at, word] + 0.3 * logprobs[at].mean() for at, word in np.ndenumerate(targets.numpy()) if word
    ]
    assert smooth["decode"].item() == pytest.approx(-0.5 * np.mean(picked), abs=1e-6)
    assert smooth["reconstruct"].item() != pytest.approx(plain["reconstruct"].item(), abs=1e-4)


def test_the_state_joins_the_word_or_takes_its_place() -> None:
    joined, replaced = setting(CycleConfig(localizer="word+state")), setting(CycleConfig(localizer="state"))
    assert joined[1].query.in_features == SIZES["words"] + SIZES["hidden"]
    assert replaced[1].query.in_features == SIZES["hidden"]


def test_the_localizer_does_not_look_at_cells_that_are_not_there() -> None:
    torch.manual_seed(0)
    decoder = Decoder(DecoderConfig(**SIZES, grid=3)).double()
    localizer = Localizer(decoder, CycleConfig()).double()
    cells = torch.randn(1, 5, 3, dtype=torch.float64)
    features, mask = torch.randn(1, 4, 6, dtype=torch.float64), torch.ones(1, 4, dtype=torch.bool)
    present = torch.tensor([[True, True, True, False, False]])
    encoded = decoder.encode(features, mask, grid=cells, grid_mask=present)
    _, on_grid = localizer(encoded, torch.randn(1, 1, 2, 4, dtype=torch.float64))
    assert on_grid is not None
    assert torch.all(on_grid[..., 3:] == 0)
