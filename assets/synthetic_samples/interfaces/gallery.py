"""One screen of every template on one picture, for people to look at.

python -m assets.synthetic_samples.interfaces.gallery docs/images/interfaces.png
"""

from __future__ import annotations

import argparse
import io
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assets.environments.chromium import browser, screenshot
from assets.synthetic_samples.interfaces.scene import (
    TEMPLATES,
    SceneDescription,
    SceneParameters,
    Template,
    describe,
    interface_html,
)

if TYPE_CHECKING:
    from PIL.Image import Image

WIDTH, HEIGHT, GAP = 1640, 300, 8
"""Of the picture, of a screen on it, and between screens, in pixels."""

PARAMETERS = SceneParameters(
    platforms={"phone": 1, "web": 1, "desktop": 1},
    screens={"phone": [(412, 915)], "web": [(1280, 720), (1920, 1080)], "desktop": [(1280, 720), (1920, 1080)]},
    locales={"en": 0.6, "zh": 0.4},
    densities={"compact": 1, "regular": 1, "comfortable": 1},
    font_sizes=(12, 15),
    overlay_share=0,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, help="where to write it, a .png or .webp")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    scenes = [described(template, arguments.seed) for template in TEMPLATES]
    gallery(photographs(scenes, arguments.seed)).save(arguments.picture, quality=82, method=6)
    for scene in scenes:
        print(f"{scene.split}: {scene.words()}")


def described(template: Template, seed: int) -> SceneDescription:
    """A scene that this template draws."""
    rng = random.Random(f"{seed} {template.name}")
    parameters = PARAMETERS.model_copy(update={"platforms": {template.platform: 1.0}})
    while True:
        scene = describe(rng, template.split, parameters)
        if scene.template == template.name:
            return scene


def photographs(scenes: Sequence[SceneDescription], seed: int) -> list[Image]:
    """What Chromium shows of each scene, at the size of its screen."""
    from PIL import Image

    pictures = []
    with browser() as chromium:
        for scene in scenes:
            page = chromium.new_page(*scene.screen)
            with chromium.guard("show an interface"):
                page.set_content(interface_html(random.Random(f"{seed} {scene.template}"), scene))
                pictures.append(Image.open(io.BytesIO(screenshot(page))).convert("RGB"))
                page.context.close()
    return pictures


def gallery(pictures: Sequence[Image]) -> Image:
    """The pictures shrunk to one height, in rows."""
    from PIL import Image

    places = []
    left, top = GAP, GAP
    for picture in pictures:
        small = picture.resize((round(picture.width * HEIGHT / picture.height), HEIGHT), Image.Resampling.LANCZOS)
        if left + small.width > WIDTH:
            left, top = GAP, top + HEIGHT + GAP
        places.append((small, left, top))
        left += small.width + GAP
    sheet = Image.new("RGB", (WIDTH, top + HEIGHT + GAP), "#808080")
    for small, x, y in places:
        sheet.paste(small, (x, y))
    return sheet


if __name__ == "__main__":
    main()
