"""Failures with one clear message for a person, and the exit code each gives a script."""

INTERRUPTED = 130
"""Exit code of what Ctrl-C or SIGTERM ended, as shells have it: 128 and the number of SIGINT."""


PARTIAL = 9
"""Exit code of an import of which something was taken and something was not."""


class HesperError(Exception):
    """A failure with one clear message for a person; `exit_code` tells scripts which kind it was."""

    exit_code = 1


class ParameterError(HesperError):
    """params.yaml or dvc.yaml asks for something that does not exist or has the wrong type."""

    exit_code = 2


class MissingProgramError(HesperError):
    """A program that the stage drives (Chromium, Xvfb, a desktop application) is not installed."""

    exit_code = 3


class StorageError(HesperError):
    """The disk is full or read-only."""

    exit_code = 4


class TrackingError(HesperError):
    """MLflow can't be reached or its database is locked."""

    exit_code = 5


class InputError(HesperError):
    """An input is missing, or its bytes are not those that were recorded."""

    exit_code = 6


class InfrastructureError(HesperError):
    """A browser, X server, device or worker failed; never to be counted as a failure of the model."""

    exit_code = 7


class TrainingError(HesperError):
    """Training went wrong by itself: a loss or a gradient is not a number, or explodes."""

    exit_code = 8


def with_exit_code(code: int, message: str) -> HesperError | None:
    """The failure that another process ended with, by its exit code; None where the code is none of these."""
    kinds = {kind.exit_code: kind for kind in HesperError.__subclasses__()}
    return kinds[code](message) if code in kinds else None
