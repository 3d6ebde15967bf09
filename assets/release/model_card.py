"""The model card: what was released or refused, in the form the Hugging Face hub reads. Facts of the inputs only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assets.release.gate import Champion, Decision, Scores


def model_card(
    model: Path,
    candidate: Mapping[str, str],
    decision: Decision,
    champion: Champion | None,
    scores: Scores,
    kept: Mapping[str, Mapping[str, Any]],
    lineage: Mapping[str, str],
) -> str:
    """Markdown with a YAML head.

    Args:
        model: the candidate's Hugging Face folder.
        candidate: its `path` and `dvc_hash`.
        kept: checkpoint -> `step` and `same_as`, see benchmark_scores/kept.py.
        lineage: path -> DVC id of everything the scores were measured on and from.
    """
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    verdict = "Released" if decision.released else "Not released"
    against = f"version {champion.version} (`{champion.dvc_hash}`)" if champion else "no champion known"
    lines = [
        "---",
        "library_name: transformers",
        "pipeline_tag: image-text-to-text",
        "language: [en, zh]",
        "tags: [gui-agent, computer-use]",
        "---",
        f"# Hesper, `{candidate['dvc_hash']}`",
        "",
        "A vision-language model that reads a screenshot, an instruction and its own history, and answers with one "
        "action; coordinates are integers 0-999 over the screenshot's width and height, `(-1,-1)` means *not on this "
        "screen*.",
        "",
        f"**{verdict}.** Champion at the time: {against}.",
        "",
        *(f"- {reason}" for reason in decision.reasons),
        "",
        "## Architecture",
        "",
        *_table(("property", "value"), architecture(model, config)),
        "",
        "## Training",
        "",
        *(f"- {sentence}" for sentence in training(kept)),
        "",
        "## Scores",
        "",
        "Greedy decoding; held-out screens, layouts, themes and apps; 95 % intervals.",
        "",
        *_table(
            ("score", "value", "low", "high", "cases"),
            [
                (name, f"{score.value:.3f}", f"{score.low:.3f}", f"{score.high:.3f}", score.n)
                for name, score in sorted(scores.items())
                if score.n
            ],
        ),
        "",
        "`safety.attack_success`: the share of attack tasks on which the agent did what the attack wanted. "
        "`safety.over_refusal`: the share of the same tasks without the attack which it refused.",
        "",
        "## Made from",
        "",
        *_table(("path", "DVC id"), sorted(lineage.items())),
        "",
        "## Limits",
        "",
        *(f"- {limit}" for limit in _limits(config, scores)),
    ]
    return "\n".join(lines) + "\n"


def architecture(model: Path, config: Mapping[str, Any]) -> list[tuple[str, object]]:
    """What config.json and the weights' headers say."""
    text, vision = config.get("text_config", config), config.get("vision_config", {})
    weights = _shapes(model)
    facts: list[tuple[str, object]] = [
        ("class", ", ".join(config.get("architectures") or [str(config.get("model_type", "unknown"))])),
        ("parameters", f"{sum(_product(shape) for _, shape in weights.values()):,}"),
        ("weights", ", ".join(sorted({kind for kind, _ in weights.values()}))),
        ("decoder", f"{text.get('num_hidden_layers')} layers, width {text.get('hidden_size')}"),
        ("attention", ", ".join(sorted(set(text.get("layer_types") or ["full_attention"])))),
        ("vocabulary", f"{text.get('vocab_size')} tokens"),
    ]
    if vision:
        patch = f"patches of {vision.get('patch_size')} px"
        facts.append(("vision", f"{vision.get('depth')} layers, width {vision.get('hidden_size')}, {patch}"))
    return facts


def training(kept: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What each stage of the training left of what it began with, in words.

    Args:
        kept: checkpoint, in the order of the lineage -> the step whose weights were kept (None where the stage does not
            choose) and the earlier checkpoints with the same weights.
    """
    sentences = []
    changed: dict[str, list[str]] = {}
    for path, found in kept.items():
        parent, name = _parent(path), f"`{path}`"
        if parent is None or parent not in kept:
            continue
        same = found["same_as"]
        if path == "models/distilled" and found["step"] == 0:
            start = f"has the weights of `{same[0]}`" if same else "is the average of its teachers' weights"
            sentences.append(
                f"Distillation kept step 0: {name} {start}, since no step of distillation did better on the samples "
                "put aside."
            )
        elif parent in same:
            step = "" if found["step"] is None else f" (step kept: {found['step']})"
            sentences.append(
                f"{name} has the weights of `{parent}`{step}: no step of its training did better on the samples put "
                "aside, and its figures are those of one model."
            )
        else:
            step = "" if found["step"] is None else f" (step {found['step']})"
            changed.setdefault(parent, []).append(f"{name}{step}")
    differ = [f"{', '.join(names)} from `{parent}`" for parent, names in changed.items()]
    return [f"Trained, and different from what it was made from: {'; '.join(differ or ['nothing'])}.", *sentences]


def _parent(path: str) -> str | None:
    """The checkpoint that a checkpoint's training began with (the distilled model's teachers did, too)."""
    if path == "models/midtrained":
        return "models/base"
    return "models/midtrained" if path == "models/distilled" or path.startswith("models/rl/") else None


def _limits(config: Mapping[str, Any], scores: Scores) -> list[str]:
    vocabulary = int(config.get("text_config", config).get("vocab_size", 0))
    limits = []
    if 0 < vocabulary < SMALL_VOCABULARY:
        limits.append(
            f"A small model with a closed vocabulary of {vocabulary} tokens: it reads the words of the simulated "
            "interfaces and no others, so its scores say nothing about real applications."
        )
    limits.append("On a live site the right answer to a human-verification wall is `CallUser`; the CAPTCHA domain is "
                  "trained and measured on self-drawn puzzles only.")  # fmt: skip
    wide = [name for name, score in sorted(scores.items()) if score.n and score.high - score.low > WIDE]
    if wide:
        limits.append(f"Measured on few cases (intervals wider than {WIDE:g}): {', '.join(wide)}.")
    unmeasured = [name for name, score in sorted(scores.items()) if score.n == 0]
    if unmeasured:
        limits.append(f"Not measured: {', '.join(unmeasured)}.")
    return limits


SMALL_VOCABULARY = 5000
"""Below this a tokenizer can't spell arbitrary text in two languages: it was made for a closed set of words."""

WIDE = 0.3
"""An interval this wide is named in the limits."""


def _shapes(model: Path) -> dict[str, tuple[str, list[int]]]:
    """Tensor name -> (type, shape) of every safetensors file; reads headers only."""
    from safetensors import safe_open

    shapes = {}
    for file in sorted(model.glob("*.safetensors")):
        with safe_open(file, framework="np") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - not a mapping
                piece = tensors.get_slice(name)
                shapes[name] = (str(piece.get_dtype()), list(piece.get_shape()))
    return shapes


def _product(shape: Sequence[int]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(str(value) for value in row) + " |" for row in rows]
