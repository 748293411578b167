"""Decoding: the vote by hand, beam search against brute force, attention of the emitting step, forced decoding."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from deixis.methods.updown import decode
from deixis.methods.updown.decode import BOS, EOS, FORBIDDEN, PAD, GenerationConfig
from deixis.methods.updown.inference import TorchDecoder
from deixis.methods.updown.network import Decoder, DecoderConfig, Encoded
from deixis.methods.updown.sample import Sampled, greedy, mean_logprobs, sample, vote_scores, voting_branches

FREE = GenerationConfig(max_words=6, allow_adjacent_repeats=True)


def decoder_and_images(branches: int = 1, images: int = 4, seed: int = 0, **other: object) -> tuple[Decoder, Encoded]:
    torch.manual_seed(seed)
    sizes = {"vocabulary": 10, "features": 6, "words": 8, "hidden": 10, "attention": 5}
    decoder = Decoder(DecoderConfig(**sizes, branches=branches, **other)).eval()
    with torch.no_grad():
        decoder.output.weight *= 6  # opinions strong enough to differ between images and branches
        decoder.output.bias[EOS] += 0.5  # and sentences that end
        features = torch.randn(images, 5, 6)
        return decoder, decoder.encode(features, torch.ones(images, 5, dtype=torch.bool))


def beam_search(decoder: Decoder, encoded: Encoded, generation: GenerationConfig) -> Sampled:
    return tensors(decode.beam_search(TorchDecoder(decoder), encoded, generation))


def force_decode(decoder: Decoder, encoded: Encoded, ids: Tensor, generation: GenerationConfig) -> Sampled:
    return tensors(decode.force_decode(TorchDecoder(decoder), encoded, ids.numpy(), generation))


def tensors(found: decode.Sentences) -> Sampled:
    parts = (found.words, found.logprobs, found.attention, found.branch_mask)
    return Sampled(*(torch.from_numpy(part) for part in parts))


def table(*rows: list[float]) -> Tensor:
    return torch.tensor(rows).log()


def test_the_word_of_most_branches_wins_even_against_a_surer_one() -> None:
    logprobs = table([0.9, 0.05, 0.05], [0.2, 0.5, 0.3], [0.2, 0.5, 0.3])
    assert vote_scores(logprobs).argmax() == 1
    assert voting_branches(logprobs, torch.tensor(1)).tolist() == [False, True, True]


def test_a_tie_goes_to_the_higher_summed_probability() -> None:
    logprobs = table([0.6, 0.3, 0.1], [0.1, 0.8, 0.1])
    assert vote_scores(logprobs).argmax() == 1
    logprobs = table([0.6, 0.1, 0.3], [0.3, 0.4, 0.3])
    assert vote_scores(logprobs).argmax() == 0


def test_a_word_that_nobody_predicted_belongs_to_the_nearest_branch() -> None:
    logprobs = table([0.6, 0.1, 0.3], [0.5, 0.2, 0.3])
    assert voting_branches(logprobs, torch.tensor(1)).tolist() == [False, True]


def test_without_a_vote_words_are_ranked_by_summed_probability() -> None:
    logprobs = table([0.5, 0.3, 0.2, 0.0], [0.5, 0.1, 0.4, 0.0])
    assert vote_scores(logprobs).argsort(descending=True).tolist() == [0, 2, 1, 3]


def test_votes_on_arrays_are_those_on_tensors() -> None:
    logprobs = torch.randn(5, 3, 8, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    words = torch.tensor([0, 1, 2, 3, 4])
    np.testing.assert_allclose(decode.vote_scores(logprobs.numpy()), vote_scores(logprobs), rtol=1e-6)
    np.testing.assert_allclose(decode.mean_logprobs(logprobs.numpy()), mean_logprobs(logprobs), rtol=1e-5)
    found = decode.voting_branches(logprobs.numpy(), words.numpy())
    np.testing.assert_array_equal(found, voting_branches(logprobs, words))


def same(a: Sampled, b: Sampled) -> None:
    assert torch.equal(a.words, b.words)
    torch.testing.assert_close(a.logprobs, b.logprobs)
    torch.testing.assert_close(a.attention, b.attention)
    assert torch.equal(a.branch_mask, b.branch_mask)


@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_beam_one_is_greedy(branches: int, seed: int) -> None:
    decoder, encoded = decoder_and_images(branches, images=6, seed=seed)
    same(beam_search(decoder, encoded, FREE), greedy(decoder, encoded, FREE))


STRICT = GenerationConfig(max_words=6, min_words=2, beam=3)


@pytest.mark.parametrize("generation", [FREE, STRICT, replace(STRICT, branches=2)])
@pytest.mark.parametrize("branches", [2, 3])
@pytest.mark.parametrize("how", ["greedy", "beam", "sample"])
def test_forced_decoding_of_a_finished_sentence_gives_its_own_values(
    generation: GenerationConfig, branches: int, how: str
) -> None:
    """Log-probabilities, attention and branches belong to the step that emitted the word, for the branches in use."""
    decoder, encoded = decoder_and_images(branches, seed=1)
    out = {
        "greedy": lambda: greedy(decoder, encoded, generation),
        "beam": lambda: beam_search(decoder, encoded, replace(generation, beam=3)),
        "sample": lambda: sample(decoder, encoded, generation, 3, generator=torch.Generator().manual_seed(0)),
    }[how]()
    assert out.attention.shape[3] == (generation.branches or branches)
    ids = torch.cat([torch.full_like(out.words[..., :1], BOS), out.words], -1)
    same(force_decode(decoder, encoded, ids, generation), out)
    assert not out.branch_mask[out.words == PAD].any()
    assert out.branch_mask.any(-1)[out.words != PAD].all()


@torch.no_grad()
def test_forced_decoding_by_hand() -> None:
    """Two branches: the log of their mean probability, -inf for a forbidden word, nothing after the end."""
    decoder, encoded = decoder_and_images(branches=2, images=1, seed=3)
    ids = torch.tensor([[[BOS, 5, 5, EOS, PAD], [BOS, 6, 4, 8, EOS]]])
    probs = decoder.word_logprobs(decoder(encoded, ids[..., :-1]).states).exp()  # [1, 2, 4, 2, V]
    out = force_decode(decoder, encoded, ids, replace(FREE, allow_adjacent_repeats=False))
    expected = [probs[0, 1, t, :, word].mean().log() for t, word in enumerate((6, 4, 8, EOS))]
    torch.testing.assert_close(out.logprobs[0, 1], torch.stack(expected))
    assert out.logprobs[0, 0, 1] == -torch.inf  # the word follows itself
    assert out.logprobs[0, 0, 3] == 0
    assert not out.attention[0, 0, 3].any()
    free = force_decode(decoder, encoded, ids, FREE)
    torch.testing.assert_close(free.logprobs[0, 0, 1], probs[0, 0, 1, :, 5].mean().log())
    assert force_decode(decoder, encoded, ids, replace(FREE, min_words=4)).logprobs[0, 1, 3] == -torch.inf


@pytest.mark.parametrize("branches", [1, 2])
@torch.no_grad()
def test_each_greedy_word_has_the_most_votes(branches: int) -> None:
    decoder, encoded = decoder_and_images(branches, seed=2)
    out = greedy(decoder, encoded, FREE)
    inputs = torch.cat([torch.full_like(out.words[..., :1], BOS), out.words[..., :-1]], -1)
    logprobs = decoder.word_logprobs(decoder(encoded, inputs).states)
    logprobs[..., list(FORBIDDEN)] = -torch.inf
    real = out.words != PAD
    assert torch.equal(vote_scores(logprobs).argmax(-1)[real], out.words[real])


@torch.no_grad()
def test_a_wide_beam_finds_the_likeliest_sentence() -> None:
    """Against every sentence of up to three allowed words."""
    decoder, encoded = decoder_and_images(images=3, seed=4)
    found = beam_search(decoder, encoded, replace(FREE, max_words=3, beam=60))
    words = [word for word in range(10) if word not in FORBIDDEN]
    for image in range(3):
        one = encoded.rows(torch.tensor([image]))
        best = -float("inf")
        for sentence in itertools.product(words, repeat=3):
            end = sentence.index(EOS) + 1 if EOS in sentence else 3
            forced = decoder(one, torch.tensor([[[BOS, *sentence[:2]]]]))
            logprobs = decoder.word_logprobs(forced.states)[0, 0, :, 0]
            best = max(best, float(sum(logprobs[t, sentence[t]] for t in range(end))))
        assert found.scores[image, 0].item() == pytest.approx(best, abs=1e-5)
    assert torch.all(found.scores.diff(dim=1) <= 1e-6)


def test_beam_search_uses_the_first_branches_only() -> None:
    """With one branch of three it gives what a decoder of one branch with the same weights gives."""
    decoder, encoded = decoder_and_images(branches=3, seed=8)
    generation = replace(FREE, beam=3, branches=1)
    found = beam_search(decoder, encoded, generation)
    single = Decoder(replace(decoder.config, branches=1)).eval()
    size = decoder.config.attention
    weights = decoder.state_dict()
    for name in ("key.weight", "key.bias", "query.weight", "query.bias"):
        weights[name] = weights[name][:size]
    weights["energy"] = weights["energy"][:1]
    single.load_state_dict(weights)
    alone = replace(encoded, keys=encoded.keys[:, :, :1])
    same(found, beam_search(single, alone, replace(generation, branches=None)))
    assert not torch.equal(found.words, beam_search(decoder, encoded, replace(FREE, beam=3)).words)


def test_rules_hold() -> None:
    decoder, encoded = decoder_and_images(branches=2, images=8, seed=5)
    free = greedy(decoder, encoded, GenerationConfig(max_words=8, min_words=8, allow_adjacent_repeats=True))
    strict = GenerationConfig(max_words=8, min_words=5, beam=3)
    outputs = (
        greedy(decoder, encoded, strict),
        beam_search(decoder, encoded, strict),
        sample(decoder, encoded, strict),
    )
    for out in outputs:
        words = out.words
        assert not torch.isin(words[..., :5], torch.tensor([*FORBIDDEN, EOS])).any()
        repeated = (words[..., 1:] == words[..., :-1]) & (words[..., 1:] != PAD)
        assert not repeated.any()
    repeated = (free.words[..., 1:] == free.words[..., :-1]) & (free.words[..., 1:] != PAD)
    assert repeated.any()  # so the rule had something to forbid


def test_the_unknown_word_is_generated_where_the_rules_allow_it() -> None:
    decoder, encoded = decoder_and_images(images=3)
    with torch.no_grad():
        decoder.output.bias[3] += 100.0
    allowed = replace(FREE, allow_unknown=True)
    assert torch.all(greedy(decoder, encoded, allowed).words == 3)
    assert not (greedy(decoder, encoded, FREE).words == 3).any()


def test_configurations_of_version_01_are_read() -> None:
    old = {"beam": 8, "judged": 16, "echoes": False, "repeats": True, "place": "best", "max_words": 12}
    expected = GenerationConfig(
        beam=8, rerank_beam=16, allow_repeated_words=False, allow_adjacent_repeats=True, max_words=12
    )
    assert GenerationConfig.from_json(old) == expected
    assert GenerationConfig.from_json({"place": "vote"}).place == "vote"
    with pytest.raises(ValueError, match="unknown field"):
        GenerationConfig.from_json({"unknown": 1})


def test_a_batch_gives_what_each_image_gives_alone() -> None:
    decoder, encoded = decoder_and_images(branches=2, images=6, seed=8)
    whole = greedy(decoder, encoded, FREE)
    lengths = (whole.words != PAD).sum(-1).flatten()
    assert len(set(lengths.tolist())) > 1  # images finish at different steps, so rows did drop out
    for image in range(6):
        alone = greedy(decoder, encoded.rows(torch.tensor([image])), FREE)
        steps = alone.words.shape[-1]
        assert torch.equal(whole.words[image, 0, :steps], alone.words[0, 0])
        torch.testing.assert_close(whole.attention[image, 0, :steps], alone.attention[0, 0])


def test_sampling_follows_its_seed_and_its_bounds() -> None:
    decoder, encoded = decoder_and_images(images=2, seed=7)

    def draw(seed: int, **options: float) -> Tensor:
        return sample(decoder, encoded, FREE, 5, generator=torch.Generator().manual_seed(seed), **options).words

    assert torch.equal(draw(0), draw(0))
    assert len({tuple(draw(s).flatten().tolist()) for s in range(4)}) > 1
    likeliest = greedy(decoder, encoded, FREE).words
    for words in (draw(3, top=1), draw(3, temperature=1e-4)):
        assert torch.equal(words, likeliest.expand(-1, 5, -1)[..., : words.shape[-1]])
