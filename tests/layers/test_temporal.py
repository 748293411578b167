"""Temporal encoder of a video: rows of a segment, cut and padded, the video vector, and rows of sampled frames."""

import numpy as np
import pytest
import torch

from deixis.layers.padded import temporal_rows
from deixis.layers.padding import pad_regions
from deixis.layers.temporal import TemporalEncoder, segment_mask
from deixis.types import Regions


def test_rows_of_the_segment():
    # T = 20 rows: 20 * .1 = 2, 20 * .52 = 10.4 -> 10; T = 10 of 6 steps: 5 .. 10 clipped to 5 .. 6
    lengths = torch.tensor([20, 10, 7])
    segment = torch.tensor([[0.1, 0.52], [0.5, 1.0], [0.0, 1.0]])
    found = segment_mask(lengths, segment, 12)
    assert found[0].nonzero().ravel().tolist() == list(range(2, 10))
    assert found[2].nonzero().ravel().tolist() == list(range(7))
    assert segment_mask(lengths, segment, 6)[1].nonzero().ravel().tolist() == [5]
    # a segment beyond the last step, and one that is shorter than a row, have one row
    assert segment_mask(torch.tensor([900]), torch.tensor([[0.9, 1.0]]), 480).sum() == 1
    assert segment_mask(torch.tensor([10]), torch.tensor([[0.50, 0.51]]), 12)[0].nonzero().ravel().tolist() == [5]


def test_the_video_vector_is_the_mean_of_all_steps():
    encoder = TemporalEncoder(4, 6, steps=5, motion=1, dropout=0.0).eval()
    rows = torch.arange(12.0).view(1, 3, 4)
    encoded, mask, vector = encoder(rows, torch.tensor([3]), torch.tensor([[0.0, 1.0, 0.0, 1.0]]))
    assert encoded.shape == (1, 5, 6)
    assert mask.tolist() == [[True, True, True, False, False]]
    mean = rows[0].sum(0) / 5  # two steps are zero
    expected = (mean - mean.mean()) / (mean.var(unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(vector[0, :4], expected)
    assert vector.shape == (1, 54)
    # rows beyond the last step have no effect
    longer = torch.cat([rows, torch.zeros(1, 2, 4), torch.full((1, 3, 4), 9.0)], 1)
    torch.testing.assert_close(encoder(longer, torch.tensor([8]), torch.tensor([[0.0, 1, 0, 1]]))[0], encoded)


def clip(**parts) -> Regions:
    boxes = np.array([[0, 0, 10, 20], [10, 10, 20, 40], [0, 0, 0, 0.0]])
    return Regions(boxes, np.array([[1.0, 2], [3, 4], [0, 0]]), (100, 50), frames=np.array([0, 0, 1]), **parts)


def test_rows_of_the_sampled_frames():
    np.testing.assert_allclose(temporal_rows(clip()), [[2, 3], [0, 0]])
    grid = np.arange(16.0).reshape(2, 2, 2, 2)
    np.testing.assert_allclose(temporal_rows(clip(grid=grid)), [[3, 4], [11, 12]])
    np.testing.assert_allclose(temporal_rows(clip(temporal=np.ones((3, 5)))), np.ones((3, 5)))


def test_padding_of_clips():
    found = pad_regions([clip(segment=(1.0, 3.0, 0.25, 0.5))])
    assert found.mask.tolist() == [[True, True, False]]  # an empty box is a region below the threshold
    assert found.video is not None
    assert found.video.frames.tolist() == [[0, 0, 1]]
    assert found.video.aspect.tolist() == [0.5]
    assert found.video.segment.tolist() == [[1, 3, 0, 1]]  # the rows are those of the segment
    whole = pad_regions([clip(segment=(1.0, 3.0, 0.25, 0.5), temporal=np.ones((7, 2)))])
    assert whole.video is not None
    assert whole.video.segment.tolist() == [[1, 3, 0.25, 0.5]]
    assert whole.video.lengths.tolist() == [7]
    assert pad_regions([Regions(np.ones((1, 4)), np.ones((1, 2)), (4, 4))]).video is None


def test_an_empty_segment_is_refused():
    with pytest.raises(ValueError, match="is empty"):
        clip(segment=(0.0, 1.0, 0.5, 0.5))


def test_random_keys_make_dropout_independent_of_the_other_clips():
    torch.manual_seed(0)
    encoder = TemporalEncoder(4, 6, steps=5, dropout=0.5).train()
    encoder.norm.eval()  # statistics of the batch would connect the clips
    rows, segment = torch.rand(3, 5, 4), torch.tensor([[0.0, 1.0, 0.0, 1.0]]).repeat(3, 1)
    lengths, keys = torch.tensor([5, 5, 5]), torch.tensor([11, 12, 13])
    encoded, _, vector = encoder(rows, lengths, segment, keys)
    alone, _, own = encoder(rows[1:2], lengths[1:2], segment[1:2], keys[1:2])
    torch.testing.assert_close(encoded[1:2], alone)
    torch.testing.assert_close(vector[1:2], own)
    other = encoder(rows[1:2], lengths[1:2], segment[1:2], keys[:1])[0]
    assert not torch.allclose(alone, other)


def test_layers_of_the_gru_one_by_one_are_the_gru(monkeypatch):
    encoder = TemporalEncoder(4, 6, steps=5, dropout=0.0).train()
    encoder.gru.dropout = 0.0
    monkeypatch.setattr("deixis.layers.temporal.BETWEEN_LAYERS", 0.0)
    hidden = torch.rand(2, 5, 6)
    torch.testing.assert_close(encoder._encode(hidden, torch.tensor([1, 2])), encoder.gru(hidden)[0])
