"""Near copies: how close any held-out screen comes to a training screen, by a perceptual hash."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SIDE = 16
"""The hash has SIDE x SIDE bits."""


def difference_hash(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
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
        self._hashes: list[npt.NDArray[np.uint64]] = []

    def add(self, pixels: npt.NDArray[np.uint8]) -> None:
        """Remember a screen."""
        self._hashes.append(difference_hash(pixels))

    def distances(self, others: Fingerprints) -> list[int]:
        """For each screen here, the number of bits by which it differs from the nearest screen of `others`."""
        theirs = np.stack(others._hashes)
        return [int(np.bitwise_count(theirs ^ own).sum(axis=1).min()) for own in self._hashes]
