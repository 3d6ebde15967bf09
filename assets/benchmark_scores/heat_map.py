"""All checkpoints against all metrics in one picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from assets.benchmark_scores.scores import Score

if TYPE_CHECKING:
    from PIL.Image import Image


def heat_map(scores: Sequence[Score], checkpoints: Sequence[str], metrics: Sequence[str]) -> Image:
    """A cell a score: its value in percent, half the width of its interval, and the colour of the value.

    Args:
        scores: any number of scores; those of other checkpoints or metrics are not drawn.
        checkpoints: the columns, as `Score.checkpoint`.
        metrics: the rows, as `Score.name`.
    """
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    known = {(score.name, score.checkpoint): score for score in scores if score.result.n}
    values = np.full((len(metrics), len(checkpoints)), np.nan)
    figure = Figure(figsize=(2.2 + 1.05 * len(checkpoints), 1.2 + 0.5 * len(metrics)), dpi=100)
    axes = figure.subplots()
    for row, metric in enumerate(metrics):
        for column, checkpoint in enumerate(checkpoints):
            score = known.get((metric, checkpoint))
            if score is None:
                continue
            result = score.result
            values[row, column] = result.value
            half = 50 * (result.high - result.low)
            text = f"{100 * result.value:.0f}" + (f"\n±{half:.0f}" if half >= 0.5 else "")
            colour = "white" if result.value < 0.6 else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
    axes.imshow(values, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(checkpoints)), checkpoints, rotation=25, ha="right", fontsize=8)
    axes.set_yticks(range(len(metrics)), metrics, fontsize=8)
    axes.set_title("held-out scores in percent, ± half of the 95 % interval", fontsize=9)
    figure.tight_layout()
    canvas = FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    canvas.print_png(buffer)
    return Image.open(buffer).convert("RGB")
