"""The nine-point hit test on cases made by hand, and the pictures."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from assets.errors import InfrastructureError
from assets.synthetic_samples.near_copies import Fingerprints, difference_hash
from assets.synthetic_samples.sheets import Element, SheetPage, encode_png, sheet_page

PLACE = "position:absolute;left:10px;top:10px;width:60px;height:30px;"
BUTTON = f'<button data-kind="button" style="{PLACE}background:#fff;border:0;padding:0">Save</button>'


@pytest.fixture(scope="module")
def page() -> Iterator[SheetPage]:
    with sheet_page((96, 64), (2, 2), ".screen { background: #fff }", 13) as page:
        yield page


def element(page: SheetPage, inner: str) -> Element:
    (drawn,) = page.draw([("", inner)])
    return drawn.elements[0]


def test_a_plain_button_is_a_target(page: SheetPage) -> None:
    found = element(page, BUTTON)
    assert found.target
    assert (found.label, found.kind, found.box) == ("Save", "button", (10, 10, 70, 40))


@pytest.mark.parametrize(
    ("case", "inner"),
    [
        ("covered at one corner", BUTTON + f'<i style="{PLACE}left:60px;top:30px"></i>'),
        ("invisible", BUTTON.replace("background", "visibility:hidden;background")),
        ("transparent", BUTTON.replace("background", "opacity:0;background")),
        ("partly off the screen", BUTTON.replace("left:10px", "left:50px")),
        ("scrolled out of its container", f'<div style="height:20px;overflow:hidden;position:relative">{BUTTON}</div>'),
        ("deaf to clicks", BUTTON.replace("background", "pointer-events:none;background")),
        ("not painted", BUTTON.replace("border:0", "border:0;color:#fff")),
        ("its text cut off", BUTTON.replace("Save", "Save everything here").replace("border:0", "white-space:nowrap")),
    ],
)  # fmt: skip
def test_what_is_no_target(page: SheetPage, case: str, inner: str) -> None:
    assert not element(page, inner).target, case


def test_the_box_of_a_link_is_its_text(page: SheetPage) -> None:
    found = element(page, f'<a href="#" data-kind="link" style="{PLACE}">Save</a>')
    x0, y0, x1, y1 = found.box
    assert found.target
    assert (x0, y0) == (10, 10)
    assert 20 < x1 - x0 < 50
    assert y1 - y0 < 20


def test_screens_of_a_sheet_do_not_disturb_each_other(page: SheetPage) -> None:
    alone = page.draw([("", BUTTON)])[0]
    green = '<div style="position:absolute;left:-50px;top:-50px;width:300px;height:300px;background:#0a0"></div>'
    for drawn in page.draw([("", green), ("", BUTTON), ("", BUTTON), ("", green)])[1:3]:
        assert np.array_equal(drawn.pixels, alone.pixels)
        assert drawn.elements == alone.elements


def test_a_browser_that_dies_is_a_failure_of_the_infrastructure() -> None:
    with sheet_page((96, 64), (2, 2), "", 13) as doomed:
        doomed.draw([("", BUTTON)])
        doomed._chromium.kill()
        with pytest.raises(InfrastructureError, match="draw a sheet"):
            doomed.draw([("", BUTTON)])


def test_png_is_lossless() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (37, 53, 3), np.uint8)
    with Image.open(io.BytesIO(encode_png(pixels))) as image:
        image.load()
        assert np.array_equal(np.asarray(image), pixels)


def test_near_copies() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    other = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    copy = picture.copy()
    copy[:3, :3] = 0
    prints = Fingerprints()
    assert prints.nearest(difference_hash(picture)) == 256
    prints.add(difference_hash(picture))
    assert prints.nearest(difference_hash(picture)) == 0
    assert prints.nearest(difference_hash(copy)) < 8
    assert prints.nearest(difference_hash(other)) > 60
