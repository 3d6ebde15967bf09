"""Who is champion: the version of the registered model behind the alias `champion`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assets.errors import TrackingError
from assets.release.gate import Champion
from assets.statistics import Interval

MODEL = "hesper"
ALIAS = "champion"


def read_champion(root: Path, candidate_hash: str) -> Champion | None:
    """The champion of a project's registry; None without one, or where tracking is off.

    Raises:
        TrackingError: the registry can't be read.
    """
    if os.environ.get("HESPER_TRACKING") == "off":
        return None
    from assets.reporting import connect

    return champion_before(connect(root), candidate_hash)


def champion_before(client: Any, candidate_hash: str) -> Champion | None:
    """The champion whose bytes are not the candidate's own.

    A candidate that was released before *is* the champion; judging it against itself would change the report of an
    unchanged stage. So it is judged against the champion it replaced, which its version names in `previous_champion`.

    Args:
        client: an `mlflow.MlflowClient`.

    Raises:
        TrackingError: the registry can't be read, or a champion lacks the tags a release gives it.
    """
    version = _ask(lambda: client.get_model_version_by_alias(MODEL, ALIAS))
    seen = set()
    while version is not None and version.version not in seen:
        seen.add(version.version)
        if version.tags.get("dvc_hash") != candidate_hash:
            return _champion(version)
        previous = version.tags.get("previous_champion")
        version = _ask(lambda number=previous: client.get_model_version(MODEL, number)) if previous else None
    return None


def scores_to_json(scores: Mapping[str, Interval]) -> dict[str, dict[str, float | int]]:
    """The form of `gate_scores` in decision.json and in a released version's tag; unmeasured scores are left out."""
    return {
        name: {"value": score.value, "low": score.low, "high": score.high, "n": score.n}
        for name, score in sorted(scores.items())
        if score.n > 0
    }


def scores_from_json(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Interval]:
    """The inverse of `scores_to_json`."""
    return {
        name: Interval(float(score["value"]), float(score["low"]), float(score["high"]), int(score["n"]))
        for name, score in values.items()
    }


def _champion(version: Any) -> Champion:
    try:
        scores = scores_from_json(json.loads(version.tags["gate_scores"]))
        return Champion(str(version.version), version.tags["dvc_hash"], scores)
    except (KeyError, ValueError, TypeError) as error:
        raise TrackingError(
            f"version {version.version} of the registered model '{MODEL}' has the alias '{ALIAS}' but not the tags "
            f"dvc_hash and gate_scores that a release gives it ({error!r}): remove the alias, or set them"
        ) from error


def _ask(question: Any) -> Any:
    """The registry's answer; None where it knows no such model, alias or version."""
    from mlflow.exceptions import MlflowException

    try:
        return question()
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST" or "alias" in str(error):
            return None
        raise TrackingError(f"MLflow's registry did not answer ({str(error).splitlines()[0]})") from error
