"""A project in a temporary folder with real, very small inputs: untrained models and a handful of drawn screens."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assets.agent.actions import REFUSAL, Action, action_to_row, from_pixel, render_response
from assets.environments.task import TaskContract, task_schema, to_row
from assets.environments.trajectory import episodes_schema, steps_schema
from assets.stage import write_parquet

REPOSITORY = Path(__file__).parents[2]
SIDE = 64
WORDS = ("Save", "Open", "Send", "Cancel")
Box = tuple[int, int, int, int]


def make_project(root: Path, params: str, models: Sequence[str], side: int = SIDE) -> Path:
    """A project whose stages can run: dvc.yaml, source, parameters, and one untrained model a path."""
    shutil.copy(REPOSITORY / "dvc.yaml", root / "dvc.yaml")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "assets", root / "assets", ignore=ignored)
    (root / "params.yaml").write_text(
        "seed: 7\n"
        f"agent: {{screen: [{side}, {side}], coordinate_digits: 3, system_prompt: brief, screenshots: 1}}\n"
        f"phone: {{}}\n{params}"
    )
    for seed, path in enumerate(models):
        save_model(root / path, seed)
    return root


def save_model(folder: Path, seed: int) -> None:
    """An untrained model of the real class, as a Hugging Face folder."""
    import torch

    from assets.agent.processor import Processor, make_image_processor
    from assets.agent.tokenizer import make_tokenizer
    from assets.checkpoints.tiny_model import Architecture, make_model

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    processor = Processor(make_tokenizer([*WORDS, "screen", "mobile", "web", "desktop"]), make_image_processor())
    size = Architecture(
        hidden=32, decoder_layers=1, vision_layers=1, heads=2, attention="full", init_std=0.1, position_std=0.3
    )
    make_model(size, processor.tokenizer).save_pretrained(folder)
    processor.save_pretrained(folder)


def write_samples(root: Path, screens: int) -> None:
    """Held-out grounding screens (four buttons and one absent word each), puzzles, and steps of every platform."""
    for name in ("grounding", "captcha"):
        folder = root / "data" / f"{name}_samples"
        folder.mkdir(parents=True)
        rows = [_screen_row(name, number) for number in range(screens)]
        write_parquet(folder / "heldout-00000.parquet", rows, _screens_schema())
    folder = root / "data" / "verified_trajectories"
    folder.mkdir(parents=True)
    episodes, steps = [], []
    for platform in ("mobile", "web", "desktop"):
        for number in range(screens):
            episode, own_steps = _episode_rows(platform, number)
            episodes.append(episode)
            steps += own_steps
    write_parquet(folder / "episodes.parquet", episodes, _with(episodes_schema(), "verdict"))
    write_parquet(folder / "steps.parquet", steps, _with(steps_schema(), "step_verdict"))


def write_tasks(root: Path, tasks: Sequence[TaskContract]) -> None:
    """The task contracts of the live suites."""
    folder = root / "data" / "generated_tasks"
    folder.mkdir(parents=True, exist_ok=True)
    write_parquet(folder / "tasks.parquet", map(to_row, tasks), task_schema())


def picture(seed: int) -> tuple[bytes, list[Box]]:
    """A screen with four buttons in a 2 x 2 grid, in places that depend on the seed."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (SIDE, SIDE), (240, 240, 240 - seed % 50))
    draw = ImageDraw.Draw(image)
    boxes = []
    for index in range(4):
        left, top = index % 2 * 32 + seed % 4, index // 2 * 32 + seed % 5
        draw.rectangle((left, top, left + 23, top + 15), fill=(40 * index, 90, 200 - 30 * index))
        boxes.append((left, top, left + 24, top + 16))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue(), boxes


def _click(box: Box) -> Action:
    return Action("Click", point=from_pixel((box[0] + box[2]) / 2, (box[1] + box[3]) / 2, SIDE, SIDE))


def _question(word: str, action: Action, boxes: list[Box]) -> dict[str, Any]:
    return {
        "instruction": word,
        "response": render_response(None, [action], 3),
        "kind": "text" if boxes else "absent",
        "actions": [action_to_row(action)],
        "boxes": [list(map(float, box)) for box in boxes],
    }


def _screen_row(name: str, number: int) -> dict[str, Any]:
    png, boxes = picture(number if name == "grounding" else number + 100)
    questions = [_question(word, _click(box), [box]) for word, box in zip(WORDS, boxes, strict=True)]
    if name == "grounding":
        questions.append(_question("Mute", Action("Click", point=REFUSAL), []))
    return {
        "id": f"{name}-{number:03d}",
        "domain": name,
        "split": "heldout",
        "image": {"bytes": png, "path": f"{number}.png"},
        "width": SIDE,
        "height": SIDE,
        "elements": [],
        "questions": questions,
    }


def _episode_rows(platform: str, number: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    png, boxes = picture(number + 200 + 50 * len(platform))
    name = f"{platform}-{number:03d}"
    responses = [render_response(word, [_click(box)], 3) for word, box in zip(WORDS, boxes, strict=True)]
    steps = [
        {
            "episode_id": name,
            "index": index,
            "platform": platform,
            "instruction": "Open then Save",
            "history": responses[:index],
            "screenshot": {"bytes": png, "path": f"{index}.png"},
            "width": SIDE,
            "height": SIDE,
            "think": WORDS[index],
            "response": responses[index],
            "actions": [action_to_row(_click(box))],
            "boxes": [list(map(float, box))],
            "state_before": "a",
            "state_after": "b",
            "step_verdict": "correct",
        }
        for index, box in enumerate(boxes[:2])
    ]
    episode = {
        "id": name,
        "task_id": name,
        "policy": "oracle",
        "platform": platform,
        "app": "notes",
        "locale": "en",
        "split": "heldout",
        "instruction": "Open then Save",
        "keypoints": [],
        "steps": len(steps),
        "outcome": "success",
        "claimed": True,
        "final_screenshot": {"bytes": png, "path": "final.png"},
        "verdict": "completed",
    }
    return episode, steps


def _screens_schema() -> Any:
    import pyarrow as pa

    from assets.agent.samples import question_type
    from assets.environments.trajectory import image_type

    element = pa.struct([("label", pa.string()), ("kind", pa.string()), ("box", pa.list_(pa.float32()))])
    return pa.schema(
        [
            *((name, pa.string()) for name in ("id", "domain", "split")),
            ("image", image_type()),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("elements", pa.list_(element)),
            ("questions", pa.list_(question_type())),
        ]
    )


def _with(schema: Any, column: str) -> Any:
    import pyarrow as pa

    return schema.append(pa.field(column, pa.string()))
