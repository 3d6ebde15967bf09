"""What happens by itself once it is turned on: retraining on a schedule, and new data taken in from an inbox."""

from pydantic import Field

from assets.stage import StageParameters


class Automation(StageParameters):
    """Section `automation` of params.yaml."""

    inbox: str = Field("inbox", description="folder that is watched for new batches")
    retrain_at: str = Field("0 3 * * 0", description="cron expression of the retraining schedule")
