"""Near copies of training screens among held-out ones."""

from __future__ import annotations

import numpy as np
import pytest

from assets.synthetic_samples.contamination import (
    Print,
    comparable,
    nearest_neighbours,
    print_from_row,
    print_row,
    shared_looks,
    shared_texts,
)
from assets.synthetic_samples.near_copies import Hash


def screen(name: str, seed: int, texts: str, flipped: int = 0, look: tuple[str, ...] = ()) -> Print:
    return Print(name, flip(seed, flipped), comparable(texts.split()), look)


def flip(seed: int, bits: int) -> Hash:
    hash_ = np.random.default_rng(seed).integers(0, 2**63, 4, np.uint64)
    hash_[0] ^= np.uint64(2**bits - 1)
    return hash_


TRAIN = [screen("a", 1, "Save Open Close Print"), screen("b", 2, "Mail Send Reply 12:30 7")]


def test_a_copy_is_found_however_its_neighbours_look() -> None:
    (found,) = nearest_neighbours(TRAIN, [screen("x", 2, "mail send Reply Archive", flipped=5)])
    assert (found.looks_like, found.bits) == ("b", 5)
    assert (found.reads_like, found.overlap) == ("b", 3 / 4)
    assert found.is_near_copy(bits=5, overlap=0.75)
    assert not found.is_near_copy(bits=4, overlap=0.75)
    assert not found.is_near_copy(bits=5, overlap=0.8)


def test_a_screen_that_looks_like_one_and_reads_like_another_is_no_copy() -> None:
    (found,) = nearest_neighbours(TRAIN, [screen("x", 1, "Mail Send Reply")])
    assert (found.looks_like, found.bits, found.overlap_of_alike) == ("a", 0, 0)
    assert (found.reads_like, found.overlap) == ("b", 1)
    assert not found.is_near_copy(bits=12, overlap=0.5)


def test_a_screen_without_texts_is_compared_by_its_looks() -> None:
    (found,) = nearest_neighbours(TRAIN, [screen("x", 1, "")])
    assert (found.looks_like, found.reads_like, found.overlap) == ("a", "a", 0)


def test_what_both_splits_show_is_named() -> None:
    train = [screen("a", 1, "Save Open", look=("theme mint", "icons lucide"))]
    heldout = [screen("x", 2, "save Print", look=("theme rose", "icons lucide"))]
    assert shared_texts(train, heldout) == ["save"]
    assert shared_looks(train, heldout) == ["icons lucide"]


def test_there_must_be_something_to_compare_with() -> None:
    with pytest.raises(ValueError, match="no training screen"):
        list(nearest_neighbours([], TRAIN))


def test_prints_come_back_from_their_rows() -> None:
    for one in TRAIN:
        again = print_from_row(print_row(one))
        assert np.array_equal(again.hash, one.hash)
        assert (again.id, again.texts, again.look) == (one.id, one.texts, one.look)
