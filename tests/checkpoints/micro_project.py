"""A project in a temporary folder that trains in seconds: 64x64 screens and a model of a few thousand weights.

Every domain asks for a click somewhere in its own half of the screen. The model has learned by imitation how an
answer is written but not where to click (the imitated places are random), so that about half of its answers are right
by chance and whatever training adds shows at once.
"""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[2]
SIZE = 64
HALVES: dict[str, tuple[float, float, float, float]] = {
    "grounding": (0, 0, 32, 64),
    "captcha": (32, 0, 64, 64),
    "mobile": (0, 0, 64, 32),
    "web": (0, 32, 64, 64),
    "computer": (0, 0, 32, 64),
}
PLACES = (125, 375, 625, 875)
"""Imitated coordinates: which digit follows which is easy to learn, and half of them lie in either half."""
INSTRUCTIONS = {"grounding": "Save", "captcha": "Open", "mobile": "Send", "web": "Close", "computer": "Mute"}
PLATFORMS = {"mobile": "mobile", "web": "web", "computer": "desktop"}

OPTIMISATION: dict[str, Any] = {
    "steps": 12,
    "learning_rate": 0.01,
    "warmup": 0,
    "decay": 0.0,
    "betas": [0.9, 0.95],
    "weight_decay": 0.0,
    "clip": 1.0,
    "explosion": None,
    "ranks": 1,
    "zero": 0,
    "threads": 1,
    "precision": "float32",
    "gradient_checkpointing": False,
    "report_every": 1,
    "evaluate_every": 6,
    "checkpoint_every": 5,
}
RL: dict[str, Any] = {
    "optimisation": OPTIMISATION,
    "algorithm": "dr_grpo",
    "clip": {"low": 0.2, "high": 0.2},
    "kl": 0.0,
    "questions": 8,
    "samples": 8,
    "uses": 1,
    "temperature": 1.0,
    "max_new_tokens": 16,
    "rows": 64,
    "logit_tokens": 4096,
    "reward": {"format": 0.1, "action": 1.0, "content_f1": 0.5},
    "match_distance": 0.14,
    "measurement": {
        "validation_share": 0.25,
        "validation_questions": 8,
        "curve_questions": 8,
        "heldout_questions": 24,
    },
}
DISTILLATION: dict[str, Any] = {
    "optimisation": {**OPTIMISATION, "steps": 15},
    "start": "midtrained",
    "estimator": "forward_kl",
    "top_k": None,
    "advantage_bound": 20.0,
    "gate": {"low": 0.5, "high": 2.0},
    "weights": None,
    "hint": None,
    "mix": {"grounding": 1, "captcha": 1, "mobile": 1, "web": 1, "computer": 1},
    "questions": 20,
    "temperature": 1.0,
    "max_new_tokens": 16,
    "rows": 64,
    "logit_tokens": 4096,
    "disagreement_every": 0,
    "match_distance": 0.14,
    "measurement": {
        "validation_share": 0.25,
        "validation_questions": 4,
        "curve_questions": 4,
        "heldout_questions": 12,
    },
}


def make_project(root: Path, **sections: dict[str, Any]) -> Path:
    """Lay a project with data for the five domains and a mid-trained model; `sections` go into params.yaml."""
    import torch

    torch.set_num_threads(1)
    root.mkdir(parents=True, exist_ok=True)
    (root / "assets").symlink_to(REPOSITORY / "assets")
    (root / "dvc.yaml").write_text((REPOSITORY / "dvc.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    agent = {"screen": [SIZE, SIZE], "coordinate_digits": 3, "system_prompt": "brief", "screenshots": 1}
    write_params(root, agent=agent, **sections)
    for domain in ("grounding", "captcha"):
        _write_screens(root / "data" / f"{domain}_samples", domain)
    _write_trajectories(root / "data" / "verified_trajectories")
    _write_midtrained(root / "models" / "midtrained", root)
    return root


def write_params(root: Path, **sections: dict[str, Any]) -> None:
    """Write or replace sections of params.yaml."""
    path = root / "params.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {"seed": 5}
    path.write_text(yaml.safe_dump({**document, **sections}), encoding="utf-8")


def picture(seed: int) -> bytes:
    """A plain PNG screen whose colour depends on the seed."""
    from PIL import Image

    rng = random.Random(seed)
    buffer = io.BytesIO()
    Image.new("RGB", (SIZE, SIZE), tuple(rng.randrange(256) for _ in range(3))).save(buffer, "PNG")
    return buffer.getvalue()


def _answer(domain: str) -> tuple[dict[str, Any], str]:
    """The verified action of a domain, as a row and as text: the middle of its half."""
    from assets.agent.actions import Action, action_to_row, from_pixel, render_response

    x0, y0, x1, y1 = HALVES[domain]
    action = Action("Click", point=from_pixel((x0 + x1) / 2, (y0 + y1) / 2, SIZE, SIZE))
    return action_to_row(action), render_response(None, [action], 3)


def _write_screens(folder: Path, domain: str) -> None:
    import pyarrow as pa

    from assets.agent.samples import question_type
    from assets.stage import write_parquet

    action, response = _answer(domain)
    question = {
        "instruction": INSTRUCTIONS[domain],
        "response": response,
        "kind": "click",
        "actions": [action],
        "boxes": [list(HALVES[domain])],
    }
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ("width", pa.int32()),
            ("height", pa.int32()),
            (
                "elements",
                pa.list_(pa.struct([("label", pa.string()), ("kind", pa.string()), ("box", pa.list_(pa.float32()))])),
            ),
            ("questions", pa.list_(question_type())),
        ]
    )
    folder.mkdir(parents=True)
    for split, count, seed in (("train", 16, 0), ("heldout", 12, 500)):
        rows = [
            {
                "id": f"{domain}-{split}-{index:02d}",
                "image": {"bytes": picture(seed + index), "path": None},
                "width": SIZE,
                "height": SIZE,
                "elements": [],
                "questions": [question, question],
            }
            for index in range(count)
        ]
        write_parquet(folder / f"{split}-00000.parquet", rows, schema)


def _write_trajectories(folder: Path) -> None:
    import pyarrow as pa

    from assets.agent.actions import action_type
    from assets.stage import write_parquet

    text = pa.string()
    episodes, steps = [], []
    for domain, platform in PLATFORMS.items():
        action, response = _answer(domain)
        for split, count, seed in (("train", 12, 1000), ("heldout", 12, 2000)):
            for index in range(count):
                episode = f"{domain}-{split}-{index:02d}"
                episodes.append({"id": episode, "platform": platform, "split": split, "verdict": "completed"})
                steps.append(
                    {
                        "episode_id": episode,
                        "index": 0,
                        "platform": platform,
                        "instruction": INSTRUCTIONS[domain],
                        "history": [],
                        "screenshot": {"bytes": picture(seed + index), "path": None},
                        "width": SIZE,
                        "height": SIZE,
                        "response": response,
                        "actions": [action],
                        "boxes": [list(HALVES[domain])],
                        "step_verdict": "correct",
                    }
                )
    folder.mkdir(parents=True)
    write_parquet(
        folder / "episodes.parquet",
        episodes,
        pa.schema([("id", text), ("platform", text), ("split", text), ("verdict", text)]),
    )
    write_parquet(
        folder / "steps.parquet",
        steps,
        pa.schema(
            [
                ("episode_id", text),
                ("index", pa.int32()),
                ("platform", text),
                ("instruction", text),
                ("history", pa.list_(text)),
                ("screenshot", pa.struct([("bytes", pa.binary()), ("path", text)])),
                ("width", pa.int32()),
                ("height", pa.int32()),
                ("response", text),
                ("actions", pa.list_(action_type())),
                ("boxes", pa.list_(pa.list_(pa.float32()))),
                ("step_verdict", text),
            ]
        ),
    )


def _write_midtrained(folder: Path, root: Path) -> None:
    """A model that writes a click at a random place, whatever it is asked."""
    import torch

    from assets.agent import fan
    from assets.agent.actions import Action, render_response
    from assets.agent.model import save_model
    from assets.agent.model_policy import sample_prompt
    from assets.agent.processor import Processor, make_image_processor
    from assets.agent.prompts import encode_response
    from assets.agent.samples import TABLE_OF_DOMAIN, load_samples
    from assets.agent.tokenizer import make_tokenizer
    from assets.checkpoints.tiny_model import Architecture, make_model

    torch.manual_seed(1)
    processor = Processor(
        make_tokenizer([*INSTRUCTIONS.values(), "screen", *PLATFORMS.values()]), make_image_processor()
    )
    architecture = Architecture(
        hidden=32, decoder_layers=1, vision_layers=1, heads=2, attention="full", init_std=0.1, position_std=0.3
    )
    model = make_model(architecture, processor.tokenizer)
    rng = random.Random(1)
    samples = [s for domain, table in TABLE_OF_DOMAIN.items() for s in load_samples(root / table, domain, "train")]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    prompts = {sample.id: sample_prompt(processor, sample) for sample in samples}
    groups = [[s for s in samples if (s.platform is None) == synthetic] for synthetic in (True, False)]
    for step in range(60):
        chosen = rng.sample(groups[step % 2], 16)
        prefixes = [(prompts[s.id].prefix, [processor.patches(s.image)]) for s in chosen]
        suffixes = []
        for owner, sample in enumerate(chosen):
            text = render_response(None, [Action("Click", point=(rng.choice(PLACES), rng.choice(PLACES)))], 3)
            suffixes.append((owner, prompts[sample.id].suffix, encode_response(processor.tokenizer, text)))
        batch = fan.collate(processor, prefixes, suffixes)
        scores = fan.log_probabilities(model, fan.forward(model, batch).answers)
        loss = -scores.gather(-1, batch.targets()[:, None]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    save_model(model, processor, folder)
