"""Grounding samples as ScreenSpot-style annotation files, which other people's evaluators read.

    FOLDER/images/ID.png
    FOLDER/annotations/grounding.json     an object for each target
    FOLDER/annotations/negatives.json     an object for each question about what its screen does not show

The fields are those of ScreenSpot-Pro and its relatives: `img_filename`, `bbox` in pixels (x0, y0, x1, y1),
`instruction`, `application`, `id`, `ui_type`, `platform`, `img_size`; of Chinese ones also `instruction_cn`. A target
carries a `negative_instruction` where its screen has one: the answer to that is a refusal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

from assets.errors import InputError, ParameterError

ABSENT_BOX = (-1, -1, -1, -1)
"""The box of what is not on the screen."""


def export_annotations(samples: Path, folder: Path, split: str) -> dict[str, int]:
    """Write the screens and questions of a split and return how many `screens`, `targets` and `negatives` there are.

    Args:
        samples: the output of `grounding_samples`.
        folder: is made; must be empty if it is there.

    Raises:
        InputError: `samples` holds no table of that split.
        ParameterError: `folder` holds something already.
    """
    files = sorted(samples.glob(f"{split}-*.parquet"))
    if not files:
        raise InputError(f"{samples} holds no table of the split '{split}': run grounding_samples first")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ParameterError(f"{folder} is not an empty folder: what is in it would be mixed with what is exported")
    (folder / "images").mkdir(parents=True)
    (folder / "annotations").mkdir()
    screens = 0
    targets: list[dict[str, Any]] = []
    negatives: list[dict[str, Any]] = []
    for row in _rows(files):
        screens += 1
        (folder / "images" / f"{row['id']}.png").write_bytes(row["image"]["bytes"])
        found = [annotation(row, number) for number in range(len(row["questions"]))]
        absent = [item for item in found if item["bbox"] == list(ABSENT_BOX)]
        present = [item for item in found if item["bbox"] != list(ABSENT_BOX)]
        others: Iterator[dict[str, Any] | None] = cycle(absent) if absent else repeat(None)
        for item, other in zip(present, others, strict=False):
            targets.append(item if other is None else {**item, "negative_instruction": other["instruction"]})
        negatives += absent
    for name, items in (("grounding", targets), ("negatives", negatives)):
        text = json.dumps(items, ensure_ascii=False, indent=1)
        (folder / "annotations" / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return {"screens": screens, "targets": len(targets), "negatives": len(negatives)}


def annotation(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    """One question of a row of the table. Small-scale tables have no platform and no kind of element."""
    question = row["questions"][number]
    asked = json.loads(row["queries"][number]) if "queries" in row else {}
    chinese = {"instruction_cn": question["instruction"]} if row["locale"] == "zh" else {}
    return {
        "img_filename": f"{row['id']}.png",
        "bbox": [round(side) for side in question["boxes"][0]] if question["boxes"] else list(ABSENT_BOX),
        "instruction": question["instruction"],
        **chinese,
        "application": row.get("application", row["scene"]),
        "id": f"{row['id']}_{number}",
        "ui_type": asked.get("ui_type") or "text",
        "platform": row.get("platform", ""),
        "img_size": [row["width"], row["height"]],
        "language": row["locale"],
        "group": question["kind"],
        "gt_type": "positive" if question["boxes"] else "negative",
    }


def _rows(files: list[Path]) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    for file in files:
        with pq.ParquetFile(file) as table:
            for batch in table.iter_batches(16):
                yield from batch.to_pylist()
