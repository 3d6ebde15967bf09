"""The stage on drawn episodes: blind to outcomes, reproducible, measured, open to imported batches."""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image, ImageDraw, ImageFont

from assets.agent.actions import Action, action_to_row, render_response
from assets.environments.trajectory import episodes_schema, steps_schema
from assets.errors import InputError
from assets.generated_tasks.capability_catalog import schema
from assets.generated_tasks.research import Capability
from assets.stage import execute, write_parquet
from assets.verified_trajectories.reading import LATIN_FONT

ROOT = Path(__file__).parents[2]
PARAMETERS = {
    "seed": 3,
    "agent": {"screen": [192, 192], "coordinate_digits": 3, "system_prompt": "brief", "screenshots": 1},
    "verified_trajectories": {
        **{"sure": 0.7, "changed": 0.0005, "moved": 0.1, "seconds": 20, "accept": 0.5, "models": []},
        **{"review": {"disagreement": 0.2, "most": 5}, "mutations": 6, "chunk": 40, "processes": 1, "strips": 4},
        "bars": {"precision": 0.98, "recall": 0.9, "caught": 0.9, "better_than_judges": True},
    },
}
WORDS = ("Save", "Mute", "Help", "Share")


def screen(pressed: Sequence[str]) -> bytes:
    """PNG of four buttons; pressed ones are green."""
    image = Image.new("RGB", (192, 192), (240, 240, 245))
    draw, font = ImageDraw.Draw(image), ImageFont.truetype(LATIN_FONT, 13)
    for index, word in enumerate(WORDS):
        x, y = 8 + 96 * (index % 2), 16 + 64 * (index // 2)
        fill = (50, 160, 80) if word in pressed else (60, 90, 220)
        draw.rounded_rectangle((x, y, x + 79, y + 27), 4, fill=fill)
        draw.text((x + 40, y + 14), word, font=font, fill="white", anchor="mm")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def episode(number: int, wanted: Sequence[str], clicked: Sequence[str], split: str) -> tuple[dict[str, Any], list[Any]]:
    """An agent that thinks `wanted` and clicks `clicked`, then claims success."""
    identity = f"e{number:03d}"
    steps, pressed, history = [], [], []
    actions = [
        Action("Click", point=(250 + 500 * (WORDS.index(word) % 2), 156 + 333 * (WORDS.index(word) // 2)))
        for word in clicked
    ]
    for index, action in enumerate([*actions, Action("Finished", content="")]):
        think = wanted[min(index, len(wanted) - 1)] if index < len(actions) else "done"
        response = render_response(think, [action], 3)
        steps.append(
            {
                **{"episode_id": identity, "index": index, "platform": "web", "history": list(history)},
                "instruction": "Press " + " then ".join(wanted),
                "screenshot": {"bytes": screen(pressed), "path": f"{identity}/{index}.png"},
                **{"width": 192, "height": 192, "think": think, "response": response},
                **{"actions": [action_to_row(action)], "boxes": [], "state_before": "", "state_after": ""},
            }
        )
        history.append(response)
        if index < len(clicked):
            pressed = [*pressed, clicked[index]]
    row = {
        **{"id": identity, "task_id": f"t{number}", "policy": "drawn", "platform": "web", "app": "drawn"},
        **{"locale": "en", "split": split, "instruction": "Press " + " then ".join(wanted)},
        **{"keypoints": list(wanted), "steps": len(steps), "claimed": True},
        "outcome": "success" if list(wanted) == list(clicked) else "failure",
        "final_screenshot": {"bytes": screen(pressed), "path": f"{identity}/final.png"},
    }
    return row, steps


def write(folder: Path, episodes: Sequence[tuple[dict[str, Any], list[Any]]]) -> None:
    folder.mkdir(parents=True)
    write_parquet(folder / "episodes.parquet", [row for row, _ in episodes], episodes_schema())
    write_parquet(folder / "steps.parquet", [step for _, steps in episodes for step in steps], steps_schema())


@pytest.fixture(scope="module")
def drawn() -> list[tuple[dict[str, Any], list[Any]]]:
    """Half do what is asked; the others stop early or click a neighbour of what they think."""
    rng = random.Random(1)
    episodes = []
    for number in range(32):
        wanted = rng.sample(WORDS, 2)
        wrong = [wanted[0], next(word for word in WORDS if word not in wanted)]
        clicked = (wanted, wanted, wanted[:1], wrong)[number % 4]
        episodes.append(episode(number, wanted, clicked, "heldout" if number % 8 < 4 else "train"))
    return episodes


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(PARAMETERS))
    for name in ("imported_batches", "reviews", "capability_catalog"):
        (tmp_path / "data" / name).mkdir(parents=True)
    abilities = [
        Capability(
            id=f"drawn/main/{word}",
            app="drawn",
            platform="web",
            locale="en",
            split="heldout",
            place="main",
            signature=f"set({word}: bool)",
            preconditions=(),
            entities=(word,),
            compatible=(),
            sources=("drawn",),
        )
        for word in WORDS
    ]
    file = tmp_path / "data" / "capability_catalog" / "capabilities.parquet"
    write_parquet(file, map(asdict, abilities), schema())
    return tmp_path


def verdicts(project: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Episode id -> (verdict, step verdicts) of the stage's output."""
    output = project / "data" / "verified_trajectories"
    steps: dict[str, list[str]] = {}
    for row in pq.read_table(output / "steps.parquet").to_pylist():
        steps.setdefault(row["episode_id"], []).append(row["step_verdict"])
    rows = pq.read_table(output / "episodes.parquet").to_pylist()
    return {row["id"]: (row["verdict"], tuple(steps[row["id"]])) for row in rows}


def test_verdicts_are_right_blind_and_reproducible(project: Path, drawn: list[Any]) -> None:
    write(project / "data" / "collected_trajectories", drawn)
    identity = execute("verified_trajectories", root=project)
    found = verdicts(project)
    for row, _ in drawn:
        expected = "completed" if row["outcome"] == "success" else "partial"
        assert found[row["id"]][0] == expected, row
    assert found["e000"][1] == ("correct", "correct", "correct")
    assert found["e002"][1] == ("correct", "incorrect")
    assert found["e003"][1] == ("correct", "incorrect", "incorrect")
    metrics = json.loads((project / "data/verified_trajectories/metrics.json").read_text())
    assert metrics["precision"] == metrics["recall"] == 1.0
    assert metrics["heldout_episodes"] == 16
    feedback = json.loads((project / "data/verified_trajectories/feedback.json").read_text())["capabilities"]
    assert sum(counts["attempts"] for counts in feedback.values()) == 64

    assert execute("verified_trajectories", root=project) == identity

    # Other outcomes of held-out apps, other claims and policies in the same episodes: not one verdict may move.
    shutil.rmtree(project / "data" / "collected_trajectories")
    outcomes = [row["outcome"] for row, _ in drawn if row["split"] == "heldout"]
    random.Random(2).shuffle(outcomes)
    others = iter(outcomes)
    write(
        project / "data" / "collected_trajectories",
        [
            (
                {
                    **r,
                    "outcome": next(others) if r["split"] == "heldout" else r["outcome"],
                    "claimed": False,
                    "policy": "x",
                },
                s,
            )
            for r, s in drawn
        ],
    )
    execute("verified_trajectories", root=project)
    assert verdicts(project) == found
    shuffled = json.loads((project / "data/verified_trajectories/metrics.json").read_text())
    assert shuffled["precision"] < 1.0


def test_imported_batches_are_verified_too_and_broken_ones_named(project: Path, drawn: list[Any]) -> None:
    write(project / "data" / "collected_trajectories", drawn[:16])
    write(project / "data" / "imported_batches" / "demonstrations", drawn[16:24])
    execute("verified_trajectories", root=project)
    assert len(verdicts(project)) == 24
    broken = project / "data" / "imported_batches" / "broken"
    broken.mkdir()
    table = pq.read_table(project / "data/collected_trajectories/episodes.parquet")
    pq.write_table(table.drop_columns(["keypoints"]), broken / "episodes.parquet")
    shutil.copy(project / "data/collected_trajectories/steps.parquet", broken)
    with pytest.raises(InputError, match=r"broken/episodes\.parquet lacks the columns keypoints"):
        execute("verified_trajectories", root=project)


def test_broken_environments_are_nobody_s_failure(project: Path, drawn: list[Any]) -> None:
    lost = [({**row, "outcome": "infrastructure"}, steps) for row, steps in drawn[:4]]
    write(project / "data" / "collected_trajectories", [*lost, *drawn[4:16]])
    execute("verified_trajectories", root=project)
    assert not {row["id"] for row, _ in lost} & set(verdicts(project))
