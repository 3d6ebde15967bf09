"""Batches as other people send them, drawn small: what the tests of the readers and of the inbox are made on."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from assets.agent.actions import Action, action_to_row, render_response
from assets.environments.trajectory import episodes_schema, steps_schema
from assets.stage import write_parquet
from assets.verified_trajectories.imports.parameters import ImportParameters

PHONE = (108, 240)
DESKTOP = (160, 90)
LIMITS = ImportParameters(
    picture_bytes=100_000,
    picture_pixels=500_000,
    line_bytes=200_000,
    row_group_bytes=50_000_000,
    episode_steps=20,
    largest_box=0.1,
    heldout_share=0.2,
)


@cache
def picture(seed: int, size: tuple[int, int] = PHONE, form: str = "PNG") -> bytes:
    """A screen that differs from that of any other seed."""
    image = Image.new("RGB", size, (seed % 251, seed // 251 % 251, 90))
    image.putpixel((seed % size[0], 3), (255, 255, 255))
    stream = io.BytesIO()
    image.save(stream, form)
    return stream.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred bytes whose header says that it unpacks to that size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(10_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


# --- AndroidControl ---------------------------------------------------------------------------------------------------


def android_episode(number: int, folder: Path | None = None) -> dict[str, Any]:
    """An episode as the evaluation files have it; its three pictures go below `folder`."""
    names = [f"{number}_{index}.png" for index in range(3)]
    if folder is not None:
        (folder / "images").mkdir(parents=True, exist_ok=True)
        for index, name in enumerate(names):
            (folder / "images" / name).write_bytes(picture(10 * number + index))
    actions: list[dict[str, Any]] = [
        {"action": "open", "text": "Notes"},
        {"action": "click", "coordinate": [54, 120]},
        {"action": "swipe", "coordinate": [54.0, 180.0], "coordinate2": [54.0, 60.0]},
    ]
    checks: list[dict[str, Any]] = [
        {"action": "open", "text": "Notes"},
        {"action": "click", "candidate_bbox": [[44, 110, 64, 130], [0, 0, 108, 240]], "coordinate": [54, 120]},
        {"action": "swipe", "direction": "down"},
    ]
    return {
        "goal": f"Open note {number}",
        "is_successful": True,
        "steps": [
            {
                "action_content": action,
                "screenshot": f"/datasets/AndroidControl/images/{name}",
                "step_instruction": f"do {action['action']}",
                "check_options": check,
            }
            for action, name, check in zip(actions, names, checks, strict=True)
        ],
        "episode_id": number,
    }


def write_android(folder: Path, numbers: Sequence[int] = (1, 2, 3)) -> Path:
    """A batch of AndroidControl."""
    folder.mkdir(parents=True)
    write_lines(folder / "episodes.jsonl", [android_episode(number, folder) for number in numbers])
    return folder


def write_lines(path: Path, rows: Sequence[Any]) -> None:
    """JSON Lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


# --- AgentNet ---------------------------------------------------------------------------------------------------------


def agentnet_task(number: int, folder: Path | None = None) -> dict[str, Any]:
    """A trajectory as AgentNet has it; its three pictures go below `folder`."""
    codes = [
        "pyautogui.click(x=0.1632, y=0.2711)",
        "pyautogui.write(message='quarter')\npyautogui.press(keys=['enter'])",
        "computer.terminate(status='success')",
    ]
    traj = []
    for index, code in enumerate(codes):
        name = f"shot-{number}-{index}.png"
        if folder is not None:
            (folder / "images").mkdir(parents=True, exist_ok=True)
            (folder / "images" / name).write_bytes(picture(7000 + 10 * number + index, DESKTOP))
        value = {"observation": "A table.", "thought": f"Step {index}.", "action": "Click", "code": code}
        traj.append({"index": index, "image": name, "value": {**value, "last_step_correct": True}})
    return {
        "task_id": f"2024_{number}",
        "instruction": f"把表格 {number} 排序",
        "task_completed": True,
        "alignment_score": 7,
        "natural_language_task": "Sort the table.",
        "traj": traj,
    }


def write_agentnet(folder: Path, numbers: Sequence[int] = (1, 2, 3)) -> Path:
    """A batch of AgentNet, with its metadata."""
    folder.mkdir(parents=True)
    write_lines(folder / "agentnet.jsonl", [agentnet_task(number, folder) for number in numbers])
    about = [{"task_id": f"2024_{n}", "system": "Ubuntu", "applications": ["Calc"], "websites": []} for n in numbers]
    write_lines(folder / "meta_data_merged.jsonl", about)
    return folder


# --- our own tables ---------------------------------------------------------------------------------------------------


def own_rows(number: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Row of the episodes table and rows of the steps table, as `hesper play` records them."""
    actions = [Action("Click", point=(500, 500)), Action("Finished", content="")]
    responses = [render_response("Notes", [action], 3) for action in actions]
    episode = {
        "id": f"e{number}", "task_id": f"task-{number}", "policy": "person", "platform": "mobile", "app": "notes",
        "locale": "en", "split": "heldout", "instruction": f"Open page {number}", "keypoints": ["Notes"], "steps": 2,
        "outcome": "success", "claimed": True,
        "final_screenshot": {"bytes": picture(4000 + 10 * number + 9), "path": "final.png"},
    }  # fmt: skip
    steps = [
        {
            "episode_id": f"e{number}", "index": index, "platform": "mobile", "instruction": f"Open page {number}",
            "history": responses[:index], "screenshot": {"bytes": picture(4000 + 10 * number + index), "path": "x"},
            "width": PHONE[0], "height": PHONE[1], "think": "Notes", "response": responses[index],
            "actions": [action_to_row(action)], "boxes": [[40.0, 100.0, 70.0, 140.0]] if action.point else [],
            "state_before": "a", "state_after": "b",
        }
        for index, action in enumerate(actions)
    ]  # fmt: skip
    return episode, steps


def write_own(folder: Path, numbers: Sequence[int] = (1, 2, 3)) -> Path:
    """A batch in our own format."""
    write_tables(folder, [own_rows(number) for number in numbers])
    return folder


def write_tables(folder: Path, episodes: Sequence[tuple[dict[str, Any], list[dict[str, Any]]]]) -> None:
    """The two tables of some episodes; row groups of two steps, so that one can be broken alone."""
    folder.mkdir(parents=True, exist_ok=True)
    write_parquet(folder / "episodes.parquet", [episode for episode, _ in episodes], episodes_schema())
    rows = [step for _, steps in episodes for step in steps]
    write_parquet(folder / "steps.parquet", rows, steps_schema(), row_group=2)


WRITERS = {"androidcontrol": write_android, "agentnet": write_agentnet, "hesper": write_own}
