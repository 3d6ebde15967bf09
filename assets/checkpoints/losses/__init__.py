"""Losses as small pure functions over log-probabilities and logits, one file an algorithm.

Policy losses (`ALGORITHMS`, by name) and distillation losses (`distillation`) return a scalar that is already
normalised by the size of the *whole* update (`Extent`), so that an update may be cut into pieces of any size and
their gradients summed. None of them knows of models, caches or samples.
"""

from __future__ import annotations

from assets.checkpoints.losses import dapo, dr_grpo, grpo, gspo
from assets.checkpoints.losses.policy_gradient import Algorithm

ALGORITHMS: dict[str, Algorithm] = {
    "grpo": Algorithm(grpo.advantages, grpo.loss),
    "dapo": Algorithm(dapo.advantages, dapo.loss),
    "dr_grpo": Algorithm(dr_grpo.advantages, dr_grpo.loss),
    "gspo": Algorithm(gspo.advantages, gspo.loss),
}
"""Name in params.yaml -> advantage and loss."""
