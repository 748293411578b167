"""Decoding: the vote by hand, beam search against brute force, and attention that belongs to its word."""

import itertools

import pytest
import torch
from torch import Tensor

from deixis.methods.updown.decode import Rules, Sentences, beam, greedy, mean_logprobs, rank, sample, voters
from deixis.methods.updown.network import Decoder, DecoderConfig, Encoded

RULES = Rules(bos=1, eos=2, banned=(0, 1), max_words=6)


def decoder_and_images(branches: int = 1, images: int = 4, seed: int = 0, **other: object) -> tuple[Decoder, Encoded]:
    torch.manual_seed(seed)
    sizes = {"vocabulary": 9, "features": 6, "words": 8, "hidden": 10, "attention": 5}
    decoder = Decoder(DecoderConfig(**sizes, branches=branches, **other)).eval()
    with torch.no_grad():
        decoder.output.weight *= 6  # opinions strong enough to differ between images and branches
        decoder.output.bias[2] += 0.5  # and sentences that end
        features = torch.randn(images, 5, 6)
        return decoder, decoder.encode(features, torch.ones(images, 5, dtype=torch.bool))


def table(*rows: list[float]) -> Tensor:
    return torch.tensor(rows).log()


def test_the_word_of_most_branches_wins_even_against_a_surer_one() -> None:
    logprobs = table([0.9, 0.05, 0.05], [0.2, 0.5, 0.3], [0.2, 0.5, 0.3])
    assert rank(logprobs).argmax() == 1
    assert voters(logprobs, torch.tensor(1)).tolist() == [False, True, True]


def test_a_tie_goes_to_the_higher_summed_probability() -> None:
    logprobs = table([0.6, 0.3, 0.1], [0.1, 0.8, 0.1])
    assert rank(logprobs).argmax() == 1
    logprobs = table([0.6, 0.1, 0.3], [0.3, 0.4, 0.3])
    assert rank(logprobs).argmax() == 0


def test_a_word_that_nobody_predicted_belongs_to_the_nearest_branch() -> None:
    logprobs = table([0.6, 0.1, 0.3], [0.5, 0.2, 0.3])
    assert voters(logprobs, torch.tensor(1)).tolist() == [False, True]


def test_without_a_vote_words_are_ranked_by_summed_probability() -> None:
    logprobs = table([0.5, 0.3, 0.2, 0.0], [0.5, 0.1, 0.4, 0.0])
    assert rank(logprobs).argsort(descending=True).tolist() == [0, 2, 1, 3]


def same(a: Sentences, b: Sentences) -> None:
    assert torch.equal(a.words, b.words)
    torch.testing.assert_close(a.logprobs, b.logprobs)
    torch.testing.assert_close(a.attention, b.attention)
    assert torch.equal(a.voted, b.voted)


@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_beam_one_is_greedy(branches: int, seed: int) -> None:
    decoder, encoded = decoder_and_images(branches, images=6, seed=seed)
    same(beam(decoder, encoded, RULES, width=1), greedy(decoder, encoded, RULES))


@pytest.mark.parametrize("branches", [1, 3])
@pytest.mark.parametrize("how", ["greedy", "beam", "sample"])
@torch.no_grad()
def test_every_look_belongs_to_the_step_that_emitted_its_word(branches: int, how: str) -> None:
    """Teacher forcing on the finished words gives the same attention, votes and log-probabilities."""
    decoder, encoded = decoder_and_images(branches, seed=1)
    out = {
        "greedy": lambda: greedy(decoder, encoded, RULES),
        "beam": lambda: beam(decoder, encoded, RULES, width=3),
        "sample": lambda: sample(decoder, encoded, RULES, samples=3, generator=torch.Generator().manual_seed(0)),
    }[how]()
    fed = torch.cat([torch.full_like(out.words[..., :1], RULES.bos), out.words[..., :-1]], -1)
    forced = decoder(encoded, fed)
    logprobs = decoder.speak(forced.states)
    logprobs[..., list(RULES.banned)] = -torch.inf
    said = out.words != RULES.pad
    assert said.any(-1).all()
    torch.testing.assert_close(out.attention[said], forced.attention[said])
    assert torch.equal(out.voted[said], voters(logprobs, out.words)[said])
    assert not out.voted[~said].any()
    expected = mean_logprobs(logprobs).gather(-1, out.words.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(out.logprobs[said], expected[said])


@pytest.mark.parametrize("branches", [1, 2])
@torch.no_grad()
def test_each_greedy_word_is_the_most_wanted_one(branches: int) -> None:
    decoder, encoded = decoder_and_images(branches, seed=2)
    out = greedy(decoder, encoded, RULES)
    fed = torch.cat([torch.full_like(out.words[..., :1], RULES.bos), out.words[..., :-1]], -1)
    logprobs = decoder.speak(decoder(encoded, fed).states)
    logprobs[..., list(RULES.banned)] = -torch.inf
    said = out.words != RULES.pad
    assert torch.equal(rank(logprobs).argmax(-1)[said], out.words[said])


@torch.no_grad()
def test_a_wide_beam_finds_the_likeliest_sentence() -> None:
    """Against every sentence of up to three words over the words that may be said."""
    decoder, encoded = decoder_and_images(images=3, seed=4)
    rules = Rules(bos=1, eos=2, banned=(0, 1), max_words=3)
    found = beam(decoder, encoded, rules, width=60)
    words = range(2, 9)
    for image in range(3):
        one = encoded.rows(torch.tensor([image]))
        best = -float("inf")
        for sentence in itertools.product(words, repeat=3):
            end = sentence.index(2) + 1 if 2 in sentence else 3
            forced = decoder(one, torch.tensor([[[1, *sentence[:2]]]]))
            logprobs = decoder.speak(forced.states)[0, 0, :, 0]
            best = max(best, float(sum(logprobs[t, sentence[t]] for t in range(end))))
        assert found.scores[image, 0].item() == pytest.approx(best, abs=1e-5)
    assert torch.all(found.scores.diff(dim=1) <= 1e-6)


def test_rules_hold() -> None:
    decoder, encoded = decoder_and_images(branches=2, images=8, seed=5)
    free = greedy(decoder, encoded, Rules(bos=1, eos=2, max_words=8, min_words=8))
    strict = Rules(bos=1, eos=2, banned=(0, 1, 3), max_words=8, min_words=5, repeats=False)
    for out in (greedy(decoder, encoded, strict), beam(decoder, encoded, strict, 3), sample(decoder, encoded, strict)):
        words = out.words
        assert not torch.isin(words[..., :5], torch.tensor([0, 1, 2, 3])).any()
        repeated = (words[..., 1:] == words[..., :-1]) & (words[..., 1:] != 0)
        assert not repeated.any()
    repeated = (free.words[..., 1:] == free.words[..., :-1]) & (free.words[..., 1:] != 0)
    assert repeated.any()  # so the rule had something to forbid


def test_a_batch_gives_what_each_image_gives_alone() -> None:
    decoder, encoded = decoder_and_images(branches=2, images=6, seed=6)
    whole = greedy(decoder, encoded, RULES)
    lengths = (whole.words != 0).sum(-1).flatten()
    assert len(set(lengths.tolist())) > 1  # images finish at different steps, so rows did drop out
    for image in range(6):
        alone = greedy(decoder, encoded.rows(torch.tensor([image])), RULES)
        steps = alone.words.shape[-1]
        assert torch.equal(whole.words[image, 0, :steps], alone.words[0, 0])
        torch.testing.assert_close(whole.attention[image, 0, :steps], alone.attention[0, 0])


def test_sampling_follows_its_seed_and_its_bounds() -> None:
    decoder, encoded = decoder_and_images(images=2, seed=7)

    def draw(seed: int, **options: float) -> Tensor:
        return sample(decoder, encoded, RULES, 5, generator=torch.Generator().manual_seed(seed), **options).words

    assert torch.equal(draw(0), draw(0))
    assert len({tuple(draw(s).flatten().tolist()) for s in range(4)}) > 1
    likeliest = greedy(decoder, encoded, RULES).words
    for words in (draw(3, top=1), draw(3, temperature=1e-4)):
        assert torch.equal(words, likeliest.expand(-1, 5, -1)[..., : words.shape[-1]])
