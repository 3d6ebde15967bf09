"""python -m assets STAGE [--partition P]: the one command behind DVC, Dagster and every remote worker."""

import argparse
import os
import sys

from assets.errors import INTERRUPTED, HesperError
from assets.reporting import open_pipes
from assets.stage import execute


def main() -> int:
    """Run one stage; a `HesperError` is one message and its exit code, not a traceback."""
    parser = argparse.ArgumentParser(prog="python -m assets", description=__doc__)
    parser.add_argument("stage", help="a stage of dvc.yaml, for example environments")
    parser.add_argument("--partition", help="the domain of a partitioned stage, for example web")
    arguments = parser.parse_args()
    # Threads that wait spin a little and then sleep: spinning on takes the machine from the other stages, and from each
    # other when it is busy; never spinning makes the small model's steps twice as long.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    pipes = open_pipes()
    try:
        identity = execute(arguments.stage, arguments.partition)
        if pipes is None:
            print(identity)
    except HesperError as error:
        if pipes is not None:  # the launcher says it, once
            pipes.report_custom_message({"error": str(error), "exit_code": error.exit_code})
        else:
            print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:
        if pipes is not None:
            last = f"{arguments.stage}: {type(error).__name__}: {error}"
            pipes.report_custom_message({"error": last, "exit_code": 1})
        raise
    finally:
        if pipes is not None:
            pipes.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
