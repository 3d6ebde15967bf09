"""What a batch from outside may hold at most."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from assets.stage import StageParameters


class ImportParameters(StageParameters):
    """Limits of what is taken from outside, and how it is split.

    Attributes:
        picture_bytes: largest file of a picture that is opened.
        picture_pixels: largest width times height of a picture that is decoded.
        line_bytes: longest line of a JSON Lines file, and largest JSON file, that is parsed.
        row_group_bytes: largest row group of a Parquet file, unpacked, that is read.
        episode_steps: most steps of one episode.
        largest_box: share of the screen above which a box names a container and not a target; it is left out.
        heldout_share: of the apps that the catalogue doesn't know, how many are held out.
    """

    picture_bytes: PositiveInt = 20_000_000
    picture_pixels: PositiveInt = 40_000_000
    line_bytes: PositiveInt = 64_000_000
    row_group_bytes: PositiveInt = 2_000_000_000
    episode_steps: PositiveInt = 500
    largest_box: float = Field(0.1, gt=0, le=1)
    heldout_share: float = Field(0.2, ge=0, le=1)
