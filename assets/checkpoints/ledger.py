"""The ledger of distillation: what every step spent its weight on, and where teachers disagreed most.

A step's entries lie in a file of the stage's work folder until the stage is done, so that a killed run keeps them; a
step that is done again writes the same file again. In the end they become `ledger.parquet`, a row a step and kind of
token, and two tables for people.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.checkpoints.losses.distillation import ErrorClass, TokenClass
from assets.checkpoints.ranks import Ranks
from assets.checkpoints.rollouts import Rollout
from assets.stage import Stage, write_parquet

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

FOLDER = "ledger"
"""In the stage's work folder: a file a step."""


@dataclass
class Spent:
    """Sums over the tokens of one kind: how many they are, their weights, their divergences from the teacher."""

    tokens: int = 0
    weight: float = 0.0
    kl: float = 0.0


@dataclass(frozen=True, order=True)
class Disagreement:
    """The token of a step on which two teachers differ most; ordered by how much they do.

    Attributes:
        divergence: the Jensen-Shannon divergence of the two, in nats.
        sample: whose answer it stands in; `position` is the token's place in that answer.
        pair: the two teachers, and in `instead` the token that each of them finds likeliest there.
    """

    divergence: float
    sample: str
    domain: str
    position: int
    token: str
    kind: str
    pair: tuple[str, str]
    instead: tuple[str, str]


class Ledger:
    """What a step of training spent its weight on: by teacher, by the student's error, by what a token belongs to."""

    def __init__(
        self, rollouts: Sequence[Rollout], errors: Sequence[ErrorClass], classes: Sequence[Sequence[TokenClass]]
    ) -> None:
        self._rollouts = rollouts
        self._errors = errors
        self._classes = classes
        self._spent: dict[tuple[str, str, str], Spent] = {}

    def enter(self, members: Sequence[int], weights: torch.Tensor, divergence: torch.Tensor) -> None:
        """The weight and the KL divergence of each token of some of the answers, `[answer tokens]` both."""
        places = [
            (self._rollouts[index].sample.domain, self._errors[index].name.lower(), kind.name.lower())
            for index in members
            for kind in self._classes[index]
        ]
        for place, weight, value in zip(places, weights.tolist(), divergence.tolist(), strict=True):
            spent = self._spent.setdefault(place, Spent())
            spent.tokens += 1
            spent.weight += weight
            spent.kl += value

    def rows(self, ranks: Ranks) -> list[dict[str, Any]]:
        """What all ranks entered: `teacher`, `error` and `kind` of some tokens, how many they are, the means of their
        weight and their divergence."""
        total: dict[tuple[str, ...], Spent] = {}
        for place, (tokens, weight, kl) in ranks.gather(
            [(place, (spent.tokens, spent.weight, spent.kl)) for place, spent in sorted(self._spent.items())]
        ):
            spent = total.setdefault(tuple(place), Spent())
            spent.tokens += tokens
            spent.weight += weight
            spent.kl += kl
        return [
            {
                **dict(zip(("teacher", "error", "kind"), place, strict=True)),
                "tokens": spent.tokens,
                "weight": spent.weight / spent.tokens,
                "kl": spent.kl / spent.tokens,
            }
            for place, spent in sorted(total.items())
        ]

    def figures(self, ranks: Ranks, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Of `rows`: mean weight and divergence of the tokens of a kind, divergence from each teacher; of all ranks'
        answers: shares of the errors, accuracy in each domain."""
        sums: dict[str, tuple[float, float]] = {}

        def add(name: str, value: float, count: float) -> None:
            total, known = sums.get(name, (0.0, 0.0))
            sums[name] = (total + value, known + count)

        for row in rows:
            tokens = row["tokens"]
            add(f"weight/{row['kind']}", row["weight"] * tokens, tokens)
            add(f"kl/{row['kind']}", row["kl"] * tokens, tokens)
            add(f"kl/{row['teacher']}", row["kl"] * tokens, tokens)
        answers = [
            (rollout.sample.domain, bool(rollout.match.correct), int(error))
            for rollout, error in zip(self._rollouts, self._errors, strict=True)
        ]
        for domain, correct, error in ranks.gather(answers):
            add(f"sampled/{domain}", correct, 1)
            for kind in ErrorClass:
                add(f"error/{kind.name.lower()}", error == kind, 1)
        return {name: total / count for name, (total, count) in sums.items()}


def keep_entries(work: Path, step: int, rows: Sequence[Mapping[str, Any]], most: Disagreement | None) -> None:
    """Write the entries of a step into the stage's work folder."""
    folder = work / FOLDER
    folder.mkdir(exist_ok=True)
    entry = {"step": step, "tokens": rows, "disagreement": None if most is None else asdict(most)}
    (folder / f"{step:08d}.json").write_text(json.dumps(entry), encoding="utf-8")


def report_ledger(stage: Stage[Any], screens: Mapping[str, int]) -> None:
    """Write the ledger of all steps, and the tables: how its figures moved, and on what teachers disagreed most."""
    entries = [json.loads(file.read_text(encoding="utf-8")) for file in sorted((stage.work / FOLDER).glob("*.json"))]
    spent = ({"step": entry["step"], **row} for entry in entries for row in entry["tokens"])
    write_parquet(stage.output / "ledger.parquet", spent, schema())
    points: dict[str, list[float]] = {}
    for _, name, value in stage.series:
        if name.split("/")[0] in ("weight", "kl", "error", "sampled", "disagreement"):
            points.setdefault(name, []).append(value)
    rows: list[list[object]] = [[name, values[0], values[-1]] for name, values in sorted(points.items())]
    rows += [[f"screens a step/{domain}", count, count] for domain, count in screens.items()]
    stage.table("ledger", ["figure", "first", "last"], rows)
    most = [(entry["step"], entry["disagreement"]) for entry in entries if entry["disagreement"] is not None]
    if most:
        stage.table(
            "disagreements",
            ["step", "teachers", "divergence", "sample", "token", "place", "kind", "instead"],
            [
                [
                    step,
                    " / ".join(it["pair"]),
                    it["divergence"],
                    it["sample"],
                    repr(it["token"]),
                    it["position"],
                    it["kind"],
                    " / ".join(map(repr, it["instead"])),
                ]
                for step, it in most
            ],
        )


def schema() -> pa.Schema:
    """A row of `ledger.parquet`: in a step, the tokens of one kind in answers with one error that one teacher scored;
    how many they are, the means of their weight and of KL(teacher || student)."""
    import pyarrow as pa

    names = [pa.field(name, pa.string()) for name in ("teacher", "error", "kind")]
    numbers = [pa.field("tokens", pa.int64()), pa.field("weight", pa.float64()), pa.field("kl", pa.float64())]
    return pa.schema([pa.field("step", pa.int64()), *names, *numbers])
