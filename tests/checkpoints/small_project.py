"""A project of a few screens, on which the training stages run in seconds."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from assets.agent.actions import Action, action_to_row, from_pixel, render_response
from assets.agent.samples import question_type
from assets.stage import write_parquet

ROOT = Path(__file__).parents[2]

OPTIMISATION: dict[str, Any] = {
    "steps": 6,
    "learning_rate": 0.002,
    "warmup": 2,
    "decay": 0.5,
    "betas": [0.9, 0.95],
    "weight_decay": 0.01,
    "clip": 1.0,
    "explosion": None,
    "ranks": 1,
    "zero": 0,
    "threads": 1,
    "precision": "float32",
    "gradient_checkpointing": False,
    "report_every": 4,
    "evaluate_every": 3,
    "checkpoint_every": 2,
}
PARAMS: dict[str, Any] = {
    "seed": 3,
    "agent": {"screen": [64, 64], "coordinate_digits": 3, "system_prompt": "brief", "screenshots": 1},
    "base_model": {
        "source": "scratch",
        "scratch": {
            "architecture": {
                "hidden": 32,
                "decoder_layers": 1,
                "vision_layers": 1,
                "heads": 2,
                "attention": "full",
                "init_std": 0.06,
                "position_std": 0.3,
            },
            "whitening": 8,
            "mix": {"grounding": 0.75, "captcha": 0.25},
            "perception": {"what": 1.0, "where": 0.5, "centre": 0.5, "centre_bins": 8},
            "screens": 4,
            "heldout": 4,
            "optimisation": OPTIMISATION,
        },
    },
    "midtrained_checkpoint": {
        "mix": {"grounding": 0.5, "captcha": 0.25, "mobile": 0.25},
        "screens": 4,
        "questions": 2,
        "logit_tokens": 4096,
        "perception": {"what": 0.5, "where": 0.5, "centre": 0.5, "centre_bins": 8},
        "pointer": 0.5,
        "validation_share": 0.0,
        "heldout": 3,
        "max_new_tokens": 12,
        "optimisation": OPTIMISATION,
    },
}
WORDS = ("Save", "Open", "发送", "Mute")


def write_project(root: Path) -> None:
    """A copy of the source (a checkpoint is valid only for it), the parameters above, a few rows of every table."""
    shutil.copytree(ROOT / "assets", root / "assets", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "dvc.yaml", root)
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS, allow_unicode=True), encoding="utf-8")
    for domain in ("grounding", "captcha"):
        folder = root / f"data/{domain}_samples"
        folder.mkdir(parents=True)
        for split, count in (("train", 9), ("heldout", 4)):
            write_parquet(
                folder / f"{split}-00000.parquet", [_screen(domain, split, n) for n in range(count)], _schema()
            )
    folder = root / "data/verified_trajectories"
    folder.mkdir(parents=True)
    _write_trajectories(folder)


def screenshot(number: int, size: tuple[int, int] = (64, 64)) -> bytes:
    """A picture of two coloured controls; the same number gives the same bytes."""
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", size, (250 - number, 246, 235))
    draw = ImageDraw.Draw(picture)
    for place in range(2):
        draw.rectangle(_box(number, place), fill=(60 + 20 * place, 10 * number % 255, 160))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def _box(number: int, place: int) -> tuple[int, int, int, int]:
    left, top = 16 * (number % 2), 32 * place
    return (left, top, left + 40, top + 24)


def _question(number: int, place: int, thought: str | None = None) -> dict[str, Any]:
    left, top, right, bottom = _box(number, place)
    action = Action("Click", point=from_pixel((left + right) / 2, (top + bottom) / 2, 64, 64))
    return {
        "instruction": f"Click {WORDS[(number + place) % 4]}",
        "response": render_response(thought, [action], 3),
        "kind": "text",
        "actions": [action_to_row(action)],
        "boxes": [[left, top, right, bottom]],
    }


def _screen(domain: str, split: str, number: int) -> dict[str, Any]:
    number += 40 if split == "heldout" else 0
    return {
        "id": f"{domain}-{split}-{number}",
        "domain": domain,
        "split": split,
        "image": {"bytes": screenshot(number), "path": None},
        "width": 64,
        "height": 64,
        "elements": [
            {"label": WORDS[(number + place) % 4], "kind": "button", "box": list(_box(number, place))}
            for place in range(2)
        ],
        "questions": [_question(number, place) for place in range(2)] * 2,
    }


def _schema() -> Any:
    import pyarrow as pa

    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    element = pa.struct([("label", pa.string()), ("kind", pa.string()), ("box", pa.list_(pa.float32()))])
    return pa.schema(
        [
            ("id", pa.string()),
            ("domain", pa.string()),
            ("split", pa.string()),
            ("image", image),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("elements", pa.list_(element)),
            ("questions", pa.list_(question_type())),
        ]
    )


def _write_trajectories(folder: Path) -> None:
    """Six episodes of two steps: four completed (one held out), one partial, one on another platform."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    episodes, steps = [], []
    kinds = [("mobile", "train", "completed")] * 3 + [
        ("mobile", "heldout", "completed"),
        ("mobile", "train", "partial"),
        ("web", "train", "completed"),
    ]
    for number, (platform, split, verdict) in enumerate(kinds):
        episodes.append({"id": f"e{number}", "platform": platform, "split": split, "verdict": verdict})
        history: list[str] = []
        for index in range(2):
            question = _question(number, index, thought=WORDS[index])
            steps.append(
                {
                    "episode_id": f"e{number}",
                    "index": index,
                    "platform": platform,
                    "instruction": "Open Save then Mute",
                    "history": list(history),
                    "screenshot": {"bytes": screenshot(number // 2), "path": None},
                    "width": 64,
                    "height": 64,
                    "response": question["response"],
                    "actions": question["actions"],
                    "boxes": question["boxes"],
                    "step_verdict": ("correct", "incorrect" if number == 1 else "exploratory")[index],
                }
            )
            history.append(question["response"])
    pq.write_table(pa.Table.from_pylist(episodes), folder / "episodes.parquet")
    question_struct = question_type()
    schema = pa.schema(
        [
            ("episode_id", pa.string()),
            ("index", pa.int32()),
            ("platform", pa.string()),
            ("instruction", pa.string()),
            ("history", pa.list_(pa.string())),
            ("screenshot", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("response", pa.string()),
            ("actions", question_struct.field("actions").type),
            ("boxes", question_struct.field("boxes").type),
            ("step_verdict", pa.string()),
        ]
    )
    pq.write_table(pa.Table.from_pylist(steps, schema=schema), folder / "steps.parquet")


def run(root: Path, stage: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a stage of the project in a process of its own."""
    return subprocess.run(command(stage), cwd=root, env=surroundings(**environment), capture_output=True, text=True)


def command(stage: str) -> list[str]:
    """What runs a stage."""
    return [sys.executable, "-m", "assets", stage]


def surroundings(**environment: str) -> dict[str, str]:
    """The environment of such a process."""
    return {**os.environ, "HESPER_TRACKING": "off", "OMP_NUM_THREADS": "1", **environment}


def digest(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def curves(folder: Path) -> dict[tuple[str, str], float]:
    """(step, figure) -> value, of a checkpoint's curves."""
    with (folder / "curves.csv").open(encoding="utf-8") as file:
        return {
            (row["step"], name): float(value)
            for row in csv.DictReader(file)
            for name, value in row.items()
            if value and name != "step"
        }


def assert_trained_alike(one: Path, two: Path) -> None:
    """Curves and weights of two checkpoints, but for the order of additions."""
    from safetensors.torch import load_file

    assert curves(one) == pytest.approx(curves(two), rel=1e-4, abs=1e-5)
    expected, found = (load_file(folder / "model.safetensors") for folder in (one, two))
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        assert (weight - found[name]).norm() <= 1e-3 * weight.norm() + 1e-6, name
