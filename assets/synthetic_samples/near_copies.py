"""Near copies: how close any held-out screen comes to a training screen, by a perceptual hash."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

SIDE = 16
"""The hash has SIDE x SIDE bits."""


Hash = npt.NDArray[np.uint64]
"""`[4]`: 256 bits."""


def difference_hash(pixels: npt.NDArray[np.uint8]) -> Hash:
    """The 256-bit difference hash of a picture `[height, width, 3]`, as four words.

    Each bit tells whether one cell of a 16 x 17 thumbnail in grey is darker than its right neighbour.
    """
    from PIL import Image

    grey = Image.fromarray(pixels).convert("L").resize((SIDE + 1, SIDE), Image.Resampling.BOX)
    cells = np.asarray(grey, np.int16)
    return np.packbits(cells[:, :-1] < cells[:, 1:]).view(np.uint64)


class Fingerprints:
    """The hashes of one split's screens."""

    def __init__(self) -> None:
        self._hashes: list[Hash] = []
        self._table: npt.NDArray[np.uint64] = np.empty((0, 4), np.uint64)

    def __iter__(self) -> Iterator[Hash]:
        return iter(self._hashes)

    def add(self, hash_: Hash) -> None:
        """Remember a screen."""
        self._hashes.append(hash_)

    def nearest(self, hash_: Hash) -> int:
        """The number of bits by which a screen differs from the nearest one here; 256 when there is none."""
        if len(self._table) != len(self._hashes):
            self._table = np.stack(self._hashes)
        return int(np.bitwise_count(self._table ^ hash_).sum(axis=1).min(initial=SIDE * SIDE))
