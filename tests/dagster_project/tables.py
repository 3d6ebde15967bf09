"""Small tables of trajectories, judged and reported on, and the commands that show them."""

from __future__ import annotations

import io
import os
import random
import re
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from PIL import Image, ImageDraw
from playwright.sync_api import Page

from assets.agent.actions import Action, action_to_row, render_response
from assets.stage import write_parquet
from assets.verified_trajectories.verified_trajectories import verified_episodes_schema, verified_steps_schema

PROJECT = Path(__file__).parents[2]
Row = dict[str, Any]

CLICK = Action("Click", point=(500, 250))


def reports_schema() -> pa.Schema:
    """Arrow schema of `reports.parquet`."""
    keypoint = [(name, pa.string()) for name in ("keypoint", "status")]
    keypoint += [("step", pa.int32()), ("judge", pa.string()), ("evidence", pa.string())]
    return pa.schema(
        [
            *((name, pa.string()) for name in ("episode_id", "seen", "verdict")),
            *((name, pa.float32()) for name in ("probability", "disagreement")),
            ("for_review", pa.bool_()),
            ("decided_by", pa.string()),
            ("keypoints", pa.list_(pa.struct(keypoint))),
        ]
    )


@cache
def screen(kind: int, size: tuple[int, int] = (180, 320)) -> bytes:
    """A PNG that looks a little like an app."""
    image = Image.new("RGB", size, (244, 245, 247))
    draw = ImageDraw.Draw(image)
    chance = random.Random(kind)
    draw.rectangle((0, 0, size[0], 26), fill=tuple(chance.randrange(40, 160) for _ in range(3)))
    for line in range(40, size[1] - 12, 22):
        draw.rounded_rectangle((10, line, chance.randrange(40, size[0] - 10), line + 14), 4, fill=(206, 211, 217))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def padded(png: bytes, chance: random.Random, count: int) -> bytes:
    """The same picture, and `count` bytes larger: a private chunk stands for detail that a real screen has."""
    body = b"heSp" + chance.randbytes(count)
    chunk = struct.pack(">I", count) + body + struct.pack(">I", zlib.crc32(body))
    return png[:-12] + chunk + png[-12:]


def step(episode: str, index: int, *actions: Action, think: str = "", **changes: Any) -> Row:
    """A row of the steps table."""
    picture = changes.pop("picture", screen(index))
    return {
        "episode_id": episode, "index": index, "platform": "mobile", "instruction": "", "history": [],
        "screenshot": None if picture is None else {"bytes": picture, "path": f"{index}.png"},
        "width": 180, "height": 320, "think": think, "response": render_response(think, actions),
        "actions": [action_to_row(action) for action in actions], "boxes": [], "state_before": "a" * 16,
        "state_after": "b" * 16, "step_verdict": "correct", **changes,
    }  # fmt: skip


def episode(name: str, steps: int = 1, **changes: Any) -> Row:
    """A row of the episodes table."""
    final = changes.pop("final", screen(99))
    return {
        "id": name, "task_id": f"task-{name}", "policy": "oracle", "platform": "mobile", "app": "notes", "locale": "en",
        "split": "train", "instruction": f"Open {name}", "keypoints": ["Open"], "steps": steps, "outcome": "success",
        "claimed": True, "final_screenshot": None if final is None else {"bytes": final, "path": "final.png"},
        "verdict": "completed",
        "votes": [{"judge": "ocr", "vote": True, "confidence": 0.9, "reason": "1 of 1 keypoints"}], **changes,
    }  # fmt: skip


def report(name: str, **changes: Any) -> Row:
    """A row of the reports table."""
    return {
        "episode_id": name, "seen": f"{zlib.crc32(name.encode()):064x}", "verdict": "completed", "probability": 0.75,
        "disagreement": 0.5, "for_review": False, "decided_by": "vote", "keypoints": [], **changes,
    }  # fmt: skip


def write_table(
    folder: Path,
    episodes: Iterable[Mapping[str, Any]],
    steps: Iterable[Mapping[str, Any]],
    reports: Sequence[Mapping[str, Any]] | None = None,
    row_group: int = 64,
) -> Path:
    """Write the files of a table; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_parquet(folder / "episodes.parquet", episodes, verified_episodes_schema(), row_group)
    write_parquet(folder / "steps.parquet", steps, verified_steps_schema(), row_group)
    if reports is not None:
        write_parquet(folder / "reports.parquet", reports, reports_schema(), row_group)
    return folder


@contextmanager
def served(*arguments: str, root: Path = PROJECT) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running command that serves a page, and the page's address."""
    process = subprocess.Popen(
        command(*arguments), cwd=PROJECT, env=environment(root), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", address), "it did not start"
        yield process, address
    finally:
        process.kill()
        process.wait()


def wait_until(page: Page, expression: str, argument: Any = None) -> None:
    """Wait for a condition in a page whose policy forbids what Playwright's own waiting does, `eval`."""
    end = time.monotonic() + 60
    while not page.evaluate(expression, argument):
        assert time.monotonic() < end, f"{expression} does not come true"
        page.wait_for_timeout(20)


def said(*arguments: str, root: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        command(*arguments), cwd=PROJECT, env=environment(root), capture_output=True, text=True, timeout=300
    )


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dagster_project.cli", *arguments]


def environment(root: Path) -> dict[str, str]:
    return {**os.environ, "HESPER_ROOT": str(root)}
