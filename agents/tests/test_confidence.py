"""Confidence comes from evidence and from nothing else."""

import itertools

import pytest

from thane_agents.confidence import agreement, confidence, grounding, overlap, share

GRID = [0.0, 0.25, 0.5, 1.0]


def test_shares() -> None:
    assert share(1, 2) == 0.5
    assert share(0, 0) == 0.0


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ({"fetched": 1.0, "with_text": 1.0}, 1.0),
        ({"fetched": 0.5, "with_text": 0.5}, 0.25),
        ({"fetched": 0.0, "with_text": 1.0}, 0.0),
        ({"captured": 1.0, "agreement": 0.0}, 0.75),
        ({"captured": 1.0, "agreement": 0.6}, 0.9),
        ({"captured": 1.0, "agreement": None}, 1.0),
        ({"covered": 0.8, "agreement": 0.0, "grounding": 0.0}, 0.45),
    ],
)
def test_values(evidence: dict[str, float | None], expected: float) -> None:
    assert confidence(evidence) == expected


def test_more_evidence_is_never_less_confidence() -> None:
    names = ("fetched", "with_text", "agreement", "grounding")
    for values in itertools.product(GRID, repeat=len(names)):
        evidence = dict(zip(names, values, strict=True))
        value = confidence(evidence)
        assert 0.0 <= value <= 1.0
        for name in names:
            assert confidence({**evidence, name: 1.0}) >= value


def test_texts() -> None:
    assert overlap("Harbours and ships", "ships, HARBOURS") == 1.0
    assert overlap("harbours", "mountains") == 0.0
    assert overlap("", "") == 0.0
    assert agreement(["only one"]) is None
    assert agreement(["alpha beta", "alpha beta", "gamma delta"]) == pytest.approx(1 / 3)
    assert grounding("lighthouse dragons", ["the lighthouse stands"]) == 0.5
    assert grounding("", ["text"]) == 0.0
