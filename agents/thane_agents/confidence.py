"""How sure an agent may be, computed from what it saw. Pure; docs/agents.md says the same in words."""

import re
from collections.abc import Iterable, Sequence
from itertools import combinations

WORD = re.compile(r"[^\W\d_]{4,}")
# How much of the confidence a disagreement of models, or a statement that no page supports, can take away.
AGREEMENT_WEIGHT = 0.25
GROUNDING_WEIGHT = 0.25


def share(part: int, whole: int) -> float:
    """A part of a whole; nothing of nothing is nothing."""
    return part / whole if whole > 0 else 0.0


def words(text: str) -> set[str]:
    """The words of a text that carry meaning: four letters and more."""
    return {word.lower() for word in WORD.findall(text)}


def overlap(one: str, other: str) -> float:
    """The share of words that two texts have in common, of all that either has."""
    left, right = words(one), words(other)
    return share(len(left & right), len(left | right))


def agreement(answers: Sequence[str]) -> float | None:
    """The mean overlap of every two answers; none with fewer than two."""
    pairs = [overlap(one, other) for one, other in combinations(answers, 2)]
    return sum(pairs) / len(pairs) if pairs else None


def grounding(answer: str, sources: Iterable[str]) -> float:
    """The share of an answer's words that the sources have."""
    said = words(answer)
    known = set().union(*(words(source) for source in sources))
    return share(len(said & known), len(said))


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def weighed(value: float, weight: float, evidence: float | None) -> float:
    """A value of which missing evidence of this weight takes its share away; no evidence either way changes nothing."""
    return value if evidence is None else value * (1.0 - weight + weight * evidence)


def confidence(evidence: dict[str, float | None]) -> float:
    """The product of the shares, reduced by disagreement and by what is not grounded; four digits."""
    value = 1.0
    for name, seen in evidence.items():
        if name == "agreement":
            value = weighed(value, AGREEMENT_WEIGHT, seen)
        elif name == "grounding":
            value = weighed(value, GROUNDING_WEIGHT, seen)
        elif seen is not None:
            value *= seen
    return round(min(1.0, max(0.0, value)), 4)
