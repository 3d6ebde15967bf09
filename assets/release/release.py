"""The gate: compares the candidate with the champion and says whether, and why, it is released.

Writes `decision.json` ({released, reasons, candidate: {path, dvc_hash}, champion: {version, dvc_hash} or null,
gate_scores}), `model_card.md` and a table. It only says: the registry alias moves after the decision is committed, so
that a killed run never leaves a champion without a record. Refusing is a result, not an error.
"""

from __future__ import annotations

import json
from pathlib import Path

from assets.errors import InputError
from assets.release.champion import read_champion, scores_to_json
from assets.release.gate import Champion, Decision, Parameters, decide
from assets.release.model_card import model_card
from assets.stage import Stage
from assets.statistics import Interval


def run(stage: Stage[Parameters]) -> None:
    """Read the two reports, decide, and write the decision."""
    path = _candidate(stage)
    candidate = {"path": path, "dvc_hash": stage.inputs[path]}
    benchmarks = stage.input("reports/benchmark_scores")
    scores = read_scores(benchmarks, path) | read_scores(stage.input("reports/safety"), path)
    champion = read_champion(stage.root, candidate["dvc_hash"])
    decision = decide(scores, champion, stage.parameters)
    lineage, kept = (
        json.loads((benchmarks / name).read_text(encoding="utf-8")) for name in ("inputs.json", "kept.json")
    )

    _write_decision(stage.output / "decision.json", decision, candidate, champion, scores)
    card = model_card(stage.input(path), candidate, decision, champion, scores, kept, lineage | stage.inputs)
    (stage.output / "model_card.md").write_text(card, encoding="utf-8")
    stage.table(
        "gate", ["check", "passed"], [(check.text, "yes" if check.passed else "no") for check in decision.checks]
    )
    stage.summary(released=decision.released, checks=len(decision.checks), failed=_failed(decision))
    stage.log("released" if decision.released else "not released: " + "; ".join(decision.reasons))


def read_scores(folder: Path, model_path: str) -> dict[str, Interval]:
    """`<domain>.<metric>` -> score of one model, from a report's scores.parquet.

    Raises:
        InputError: the report knows nothing of the model.
    """
    import pyarrow.parquet as pq

    rows = pq.read_table(folder / "scores.parquet").to_pylist()
    scores = {
        f"{row['domain']}.{row['metric']}": Interval(row["value"], row["low"], row["high"], row["n"])
        for row in rows
        if row["model_path"] == model_path
    }
    if not scores:
        raise InputError(f"{folder.name}/scores.parquet has no row for {model_path}")
    return scores


def _candidate(stage: Stage[Parameters]) -> str:
    models = [path for path in stage.inputs if path.startswith("models/")]
    if len(models) != 1:
        raise InputError(f"release needs exactly one model among its deps in dvc.yaml, found {len(models)}")
    return models[0]


def _write_decision(
    path: Path,
    decision: Decision,
    candidate: dict[str, str],
    champion: Champion | None,
    scores: dict[str, Interval],
) -> None:
    document = {
        "released": decision.released,
        "reasons": list(decision.reasons),
        "candidate": candidate,
        "champion": {"version": champion.version, "dvc_hash": champion.dvc_hash} if champion else None,
        "gate_scores": scores_to_json(scores),
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def _failed(decision: Decision) -> int:
    return sum(not check.passed for check in decision.checks)
