"""Trajectories as pictures: the screens of an episode in a row, what was done drawn on."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.agent.actions import Action, action_from_row, to_pixel

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

MARK = (255, 0, 64)
PAPER = (250, 250, 250)
INK = (20, 20, 20)
CAPTION = 30
"""Pixels of the caption below a screen."""


def filmstrips(
    episodes: Sequence[Mapping[str, Any]], steps: Mapping[str, Sequence[Mapping[str, Any]]], most: int = 6
) -> Image:
    """One row an episode: its instruction, then its screens with the actions drawn on, then the final screen.

    Args:
        episodes: rows of the episodes table.
        steps: episode id -> rows of the steps table, in order.
        most: most screens of a row.
    """
    from PIL import Image, ImageDraw

    strips = [_strip(episode, steps[episode["id"]], most) for episode in episodes]
    width = max(strip.width for strip in strips)
    sheet = Image.new("RGB", (width, sum(strip.height for strip in strips)), PAPER)
    y = 0
    for strip in strips:
        sheet.paste(strip, (0, y))
        y += strip.height
        ImageDraw.Draw(sheet).line((0, y - 1, width, y - 1), fill=(200, 200, 200))
    return sheet


def load_strips(folder: Path, ids: Sequence[str]) -> Image:
    """Filmstrips of some episodes of a folder with `episodes.parquet` and `steps.parquet`."""
    import pyarrow.parquet as pq

    chosen = [("id", "in", list(ids))]
    episodes = sorted(pq.read_table(folder / "episodes.parquet", filters=chosen).to_pylist(), key=lambda row: row["id"])
    steps: dict[str, list[Mapping[str, Any]]] = {row["id"]: [] for row in episodes}
    of_episode = [("episode_id", "in", list(ids))]
    for row in pq.read_table(folder / "steps.parquet", filters=of_episode).to_pylist():
        steps[row["episode_id"]].append(row)
    return filmstrips(episodes, {name: sorted(rows, key=lambda row: row["index"]) for name, rows in steps.items()})


def draw_action(image: Image, action: Action) -> None:
    """Mark on a screenshot where an action points: a ring, or an arrow for a drag."""
    from PIL import ImageDraw

    draw = ImageDraw.Draw(image)
    points = [to_pixel(point, *image.size) for point in action.points()]
    if len(points) == 2:
        draw.line([*points[0], *points[1]], fill=MARK, width=2)
    for x, y in points[:1]:
        draw.ellipse((x - 7, y - 7, x + 7, y + 7), outline=MARK, width=2)
        draw.ellipse((x - 1, y - 1, x + 1, y + 1), fill=MARK)


def _strip(episode: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], most: int) -> Image:
    from PIL import Image, ImageDraw

    frames = []
    for step in steps[:most]:
        image = _opened(step["screenshot"])
        actions = [action_from_row(row) for row in step["actions"]]
        for action in actions:
            draw_action(image, action)
        verdict = step.get("step_verdict")
        names = ", ".join(_short(action) for action in actions) or "not understood"
        frames.append((image, [names, f"[{verdict}]" if verdict else step["think"]]))
    if episode["final_screenshot"] is not None:
        end = episode.get("verdict") or episode["outcome"]
        frames.append((_opened(episode["final_screenshot"]), ["end", f"[{end}]"]))
    height = max(image.height for image, _ in frames)
    strip = Image.new("RGB", (sum(image.width + 6 for image, _ in frames), 16 + height + CAPTION), PAPER)
    draw = ImageDraw.Draw(strip)
    _write(draw, (4, 1), f"{episode['policy']}: {episode['instruction']}")
    x = 0
    for image, captions in frames:
        strip.paste(image, (x, 16))
        for line, caption in enumerate(captions):
            _write(draw, (x + 2, 16 + height + 14 * line), caption)
        x += image.width + 6
    return strip


def _short(action: Action) -> str:
    text = action.content or "+".join(action.keys)
    return f"{action.name} {text}".strip()


def _opened(value: Mapping[str, Any]) -> Image:
    from PIL import Image

    return Image.open(io.BytesIO(value["bytes"])).convert("RGB")


def _write(draw: ImageDraw, place: tuple[int, int], text: str) -> None:
    draw.text(place, text[:60], fill=INK, font=caption_font())


def caption_font(size: int = 11) -> Any:
    """A font with Chinese where the machine has one."""
    from PIL import ImageFont

    for path in (
        "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
        "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    ):
        try:
            return ImageFont.truetype(path, size)
        except OSError:
            continue
    return ImageFont.load_default()
