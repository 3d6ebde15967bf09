"""How near the held-out screens come to those of training: in what they look like, and in what is written on them.

Two screens look alike when their perceptual hashes differ in few bits, and read alike when most of their texts are the
same. Each alone may be chance: an almost empty screen looks like any other, and every settings page reads "Wi-Fi". A
near copy does both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assets.errors import ParameterError
from assets.stage import Stage
from assets.synthetic_samples.near_copies import Hash

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Print:
    """What is compared of a screen: its perceptual hash, its texts, and what it was made with."""

    id: str
    hash: Hash
    texts: frozenset[str]
    look: tuple[str, ...]


@dataclass(frozen=True)
class Nearest:
    """A held-out screen, the training screen that looks most like it and the one that reads most like it.

    Attributes:
        bits: in how many of 256 bits the hashes of the first two differ.
        overlap: texts that the held-out screen shares with the last, over all of both (Jaccard).
        overlap_of_alike: the same for the screen that looks most like it.
        bits_of_read: the bits by which the screen differs that reads most like it.
    """

    heldout: str
    looks_like: str
    bits: int
    overlap_of_alike: float
    reads_like: str
    overlap: float
    bits_of_read: int

    def is_near_copy(self, bits: int, overlap: float) -> bool:
        """Whether one training screen both looks and reads like it."""
        alike = self.bits <= bits and self.overlap_of_alike >= overlap
        return alike or (self.overlap >= overlap and self.bits_of_read <= bits)


def prints_schema() -> pa.Schema:
    """The table of prints, a row a screen."""
    import pyarrow as pa

    strings = pa.list_(pa.string())
    return pa.schema([("id", pa.string()), ("hash", pa.list_(pa.uint64())), ("texts", strings), ("look", strings)])


def print_row(screen: Print) -> dict[str, Any]:
    """A print as a row of `prints_schema`."""
    texts = sorted(screen.texts)
    return {"id": screen.id, "hash": screen.hash.tolist(), "texts": texts, "look": list(screen.look)}


def print_from_row(row: Mapping[str, Any]) -> Print:
    """The inverse of `print_row`."""
    return Print(row["id"], np.array(row["hash"], np.uint64), frozenset(row["texts"]), tuple(row["look"]))


def comparable(texts: Iterable[str]) -> frozenset[str]:
    """The texts that say something about a screen: case doesn't count, and numbers are on every screen."""
    folded = (text.casefold() for text in texts)
    return frozenset(text for text in folded if len(text) > 1 and not text.replace(".", "").replace(":", "").isdigit())


def nearest_neighbours(train: Sequence[Print], heldout: Iterable[Print]) -> Iterator[Nearest]:
    """Of each held-out screen, the training screens that come nearest to it.

    Raises:
        ValueError: there is no training screen.
    """
    if not train:
        raise ValueError("no training screen to compare with")
    hashes = np.stack([screen.hash for screen in train])
    bearers: dict[str, list[int]] = {}
    for number, screen in enumerate(train):
        for text in screen.texts:
            bearers.setdefault(text, []).append(number)
    for screen in heldout:
        bits = np.bitwise_count(hashes ^ screen.hash).sum(axis=1)
        alike = int(bits.argmin())
        shared = Counter(number for text in screen.texts for number in bearers.get(text, ()))
        read = min(shared, key=lambda number: (-_jaccard(shared[number], screen, train[number]), number), default=alike)
        yield Nearest(
            heldout=screen.id,
            looks_like=train[alike].id,
            bits=int(bits[alike]),
            overlap_of_alike=_jaccard(shared[alike], screen, train[alike]),
            reads_like=train[read].id,
            overlap=_jaccard(shared[read], screen, train[read]),
            bits_of_read=int(bits[read]),
        )


def check_contamination(
    stage: Stage[Any], train: Sequence[Print], heldout: Sequence[Print], bits: int, overlap: float
) -> None:
    """Report the training screens that come nearest to those held out, and refuse near copies.

    Raises:
        ParameterError: a held-out screen is a near copy, or something of `shared_looks` is in both splits.
    """
    nearest = list(nearest_neighbours(train, heldout))
    copies = [pair for pair in nearest if pair.is_near_copy(bits, overlap)]
    texts, looks = shared_texts(train, heldout), shared_looks(train, heldout)
    stage.summary(
        nearest_heldout_distance=min(pair.bits for pair in nearest),
        nearest_heldout_text_overlap=max(pair.overlap for pair in nearest),
        near_copies=len(copies),
        shared_texts=len(texts),
        shared_looks=len(looks),
    )
    order = sorted(nearest, key=lambda pair: (pair.bits, -pair.overlap_of_alike, pair.heldout))[:PAIRS]
    order += sorted(nearest, key=lambda pair: (-pair.overlap, pair.bits_of_read, pair.heldout))[:PAIRS]
    stage.table(
        "nearest_neighbours",
        ("held-out", "looks most like", "bits of 256", "texts in common", "reads most like", "texts in common", "bits"),
        [tuple(vars(pair).values()) for pair in dict.fromkeys(order)],
    )
    stage.table("shared_texts", ("text of both splits",), [(text,) for text in texts])
    if copies:
        first = copies[0]
        raise ParameterError(
            f"{stage.entry.name}: {len(copies)} held-out screens are near copies of training screens, such as "
            f"{first.heldout} ({first.bits} bits from {first.looks_like}, {first.overlap:.2f} of its texts are those "
            f"of {first.reads_like}): another seed gives other screens"
        )
    if looks:
        raise ParameterError(f"{stage.entry.name}: both splits show {', '.join(looks)}")


PAIRS = 10
"""How many pairs of nearest neighbours are reported, by looks and by texts."""


def _jaccard(shared: int, one: Print, other: Print) -> float:
    return shared / max(len(one.texts) + len(other.texts) - shared, 1)


def shared_texts(train: Iterable[Print], heldout: Iterable[Print]) -> list[str]:
    """Texts that screens of both splits show, sorted."""
    return sorted(_texts(train) & _texts(heldout))


def shared_looks(train: Iterable[Print], heldout: Iterable[Print]) -> list[str]:
    """Scenes, themes and icon sets of both splits, sorted: there should be none."""
    ours, theirs = ({name for screen in screens for name in screen.look} for screens in (train, heldout))
    return sorted(ours & theirs)


def _texts(screens: Iterable[Print]) -> set[str]:
    return {text for screen in screens for text in screen.texts}
