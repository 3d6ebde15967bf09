"""hesper: run the lineage, see what is there, find out where it came from."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assets.errors import INTERRUPTED, PARTIAL, HesperError, InputError, ParameterError, StorageError, TrackingError

if TYPE_CHECKING:
    from dagster_project.history import Ancestry
    from dagster_project.launch import Outcome
    from dagster_project.materialise import Project

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__, rich_markup_mode=None
)


def main() -> None:
    """Entry point: what goes wrong in a foreseen way is one message and an exit code, not a traceback."""
    try:
        app()
    except HesperError as error:
        _fail(error)
    except KeyboardInterrupt:
        print("interrupted: what is finished is kept, and the next run goes on from there", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        foreseen = _foreseen(error)
        if foreseen is None:
            raise
        _fail(foreseen)


# --- commands --------------------------------------------------------------------------------------------------------


@app.command()
def run(
    stages: Annotated[list[str] | None, typer.Argument(help="STAGE or STAGE@PARTITION; default: the lineage")] = None,
    profile: Annotated[
        str | None, typer.Option(help="first put infra/profiles/NAME.yaml in params.yaml's place")
    ] = None,
    only: Annotated[bool, typer.Option("--only", help="just these stages, not what they are made from")] = False,
) -> None:
    """Bring assets, and everything they are made from, up to date. What is unchanged is not run again."""
    begun = time.monotonic()
    root = _root()
    if profile is not None:
        use_profile(root, profile)
    _check_disk(root)
    project = _project(root)
    addresses = _select(project, stages or [], only)

    from assets.environments.workers import sweep
    from dagster_project import history, launch
    from dagster_project.ablation import Ablation
    from dagster_project.automation import Automation
    from dagster_project.materialise import check_parameters
    from dagster_project.tracking import Pages
    from dagster_project.workers import Worker

    check_parameters(project, {"worker": Worker, "automation": Automation, "ablation": Ablation, "ui": Pages})
    instance = launch.open_instance(root)
    launch.end_dead_runs(instance)
    sweep()
    from dagster_project.definitions import defs

    outcomes = launch.materialise_lineage(defs, project, instance, addresses, _print_outcome, _print_start)
    if any(outcome.state == "ran" for outcome in outcomes):
        with contextlib.suppress(HesperError):  # only for `hesper status` to answer sooner
            history.mlflow_records(project, [(stage, key) for stage in project.lineage.stages for key in stage.keys])
    _print_table(project, outcomes, time.monotonic() - begun)
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    if failed:
        for outcome in failed:
            print(f"error: {outcome.address}: {outcome.message}", file=sys.stderr)
        sys.exit(failed[0].exit_code)


@app.command()
def status(
    asset: Annotated[str | None, typer.Argument(help="one asset; default: all")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="for programs: a list of objects")] = False,
) -> None:
    """Each asset's state, its three ids (DVC, Dagster, MLflow: one string) and its metrics."""
    root = _root()
    project = _project(root)
    from dagster_project import history, launch

    names = [asset] if asset else [stage.name for stage in project.lineage.stages]
    _select(project, names, only=True)
    partition = asset.partition("@")[2] if asset else ""
    found = history.status(project, launch.open_instance(root), [name.partition("@")[0] for name in names])
    found = [item for item in found if not partition or item.partition == partition]
    if as_json:
        print(json.dumps([item.as_json() for item in found], indent=1))
        return
    from rich.table import Table

    table = Table("asset", "state", "id", "made from", "metrics")
    for item in found:
        same = item.dvc_id == item.data_version == item.dataset_digest
        ids = item.dvc_id or ""
        if not same:
            ids = f"DVC {item.dvc_id}\nDagster {item.data_version}\nMLflow {item.dataset_digest}"
        metrics = "\n".join(f"{key} {value:g}" for key, value in (item.metrics if asset else {}).items())
        if not asset:
            metrics = f"{len(item.metrics)}" if item.metrics else ""
        table.add_row(item.address, item.state, ids, item.why, metrics)
    _console().print(table)


@app.command()
def trace(
    what: Annotated[str, typer.Argument(metavar="ID|ASSET|MLFLOW_RUN", help="an id may be shortened")],
) -> None:
    """Print what a version was made from, and what was made from it."""
    from rich.tree import Tree

    project = _project(_root())
    from dagster_project import history

    ancestry = history.read_ancestry(project)
    identity = history.resolve(project, ancestry, what)
    above = Tree(f"{_label(ancestry, identity)}\n  is made from")
    _grow(above, identity, ancestry, lambda node: ancestry.parents.get(node, []), set())
    below = Tree("and was used for")
    _grow(below, identity, ancestry, ancestry.children, set())
    console = _console()
    console.print(above)
    console.print(below if below.children else "and nothing was made of it")


@app.command()
def reproduce(
    what: Annotated[str, typer.Argument(metavar="ID|ASSET", help="a version that dvc.lock records")],
) -> None:
    """Run the stage that made a version again, in a folder of its own, and compare the bytes."""
    project = _project(_root())
    from dagster_project import history

    done = history.reproduce(project, history.resolve(project, history.read_ancestry(project), what))
    print(f"{done.address}: recorded {done.recorded}, made again {done.made}: {'same' if done.same else 'DIFFERENT'}")
    if not done.same:
        print(f"both are kept: compare with {done.folder}", file=sys.stderr)
        sys.exit(1)
    shutil.rmtree(done.folder)


@app.command()
def profile(
    name: Annotated[str | None, typer.Argument(help="a file of infra/profiles, without .yaml")] = None,
    restore: Annotated[bool, typer.Option("--restore", help="put the params.yaml back that was there before")] = False,
) -> None:
    """Put another profile in the place of params.yaml, the file every run reads; the old one is kept.

    A profile is a whole params.yaml, so that what made a version is in one file that Git and DVC see.
    """
    root = _root()
    if restore:
        backup = root / ".hesper" / "params.before.yaml"
        if not backup.is_file():
            raise ParameterError("no profile was put in the place of params.yaml, so there is nothing to restore")
        os.replace(backup, root / "params.yaml")
        print("params.yaml is what it was before")
        return
    if name is None:
        print("\n".join(_profiles(root)))
        return
    use_profile(root, name)


@app.command()
def ui(
    dagster_port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one")] = 3000,
    mlflow_port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one")] = 5000,
) -> None:
    """Start the Dagster and MLflow web pages on this machine, print their addresses, and end them with Ctrl-C."""
    root = _root()
    _check_disk(root)
    from dagster_project.web import serve

    serve(root, dagster_port, mlflow_port)


@app.command()
def parse(
    text: Annotated[str | None, typer.Argument(help="a model's answer; default: lines on standard input")] = None,
    platform: Annotated[str | None, typer.Option(help="mobile | web | desktop: what it lacks is an error")] = None,
    size: Annotated[str | None, typer.Option(metavar="WxH", help="of the screenshot: also print pixels")] = None,
    coordinates: Annotated[str, typer.Option(help="what numbers mean: 999 | 1000 | unit | pixel")] = "999",
) -> None:
    """Print what the agent's grammar understands of an answer, as JSON, or the error with a caret at its place.

    Nothing is evaluated. On standard input each line is an answer; a JSON string is one that holds line breaks. The
    exit code is 1 if one could not be understood.
    """
    from dagster_project.parse import check_choices, parse_answers, read_size

    pixels = read_size(size)
    known = check_choices(platform, pixels, coordinates)
    answers = [text] if text is not None else (line.rstrip("\n") for line in sys.stdin if line.strip())
    if parse_answers(answers, platform, pixels, known):
        sys.exit(1)


@app.command()
def view(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="environments|TABLE|FOLDER",
            help="the catalogue of apps, or trajectories: collected_trajectories, verified_trajectories, an imported "
            "batch, or a folder with episodes.parquet and steps.parquet; default: the verified ones",
        ),
    ] = None,
    policy: Annotated[str | None, typer.Option(help="only episodes of this policy")] = None,
    of_app: Annotated[str | None, typer.Option("--app", help="only episodes in this app")] = None,
    verdict: Annotated[str | None, typer.Option(help="completed | partial | infeasible | failed")] = None,
    split: Annotated[str | None, typer.Option(help="only episodes of this split")] = None,
    episode: Annotated[str | None, typer.Option(metavar="ID", help="only this episode")] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="write one file instead of serving")] = None,
    most_steps: Annotated[int, typer.Option(help="that FILE may hold, pictures and all")] = 500,
) -> None:
    """Look at an output of the lineage in a local page: print its address and serve it until Ctrl-C."""
    root = _root()
    chosen = {"policy": policy, "app": of_app, "verdict": verdict, "split": split, "episode": episode}
    if what == "environments":
        if output is not None or any(chosen.values()):
            raise ParameterError("options are for trajectories; the page of environments has filters of its own")
        from dagster_project.view.environments import write_environments

        print(write_environments(root).as_uri())
        return
    from dagster_project.view.trajectories import view_trajectories, write_trajectories

    if output is None:
        view_trajectories(root, what, chosen, lambda address: print(address, flush=True))
    else:
        write_trajectories(root, what, chosen, output, most_steps)
        print(output.resolve().as_uri())


@app.command()
def review(
    reviewer: Annotated[str | None, typer.Option(metavar="NAME", help="default: Git's user.name")] = None,
) -> None:
    """Decide about episodes that the judges can't agree on, in a local page, until Ctrl-C.

    Each decision is a small file in data/reviews. Keep them in Git: verified_trajectories reads them.
    """
    root = _root()
    from dagster_project.view.review import review as serve

    print(serve(root, reviewer, lambda address: print(address, flush=True)))


@app.command()
def play(
    name: Annotated[str, typer.Argument(metavar="APP", help="id of an app of the catalogue")],
    out: Annotated[Path | None, typer.Option(help="folder of recorded episodes; default: data/played")] = None,
    size: Annotated[str | None, typer.Option(metavar="WxH", help="of the screen; default: the app's own")] = None,
    seed: Annotated[int, typer.Option(help="of the episode of a MiniWoB++ page")] = 1,
) -> None:
    """Open one app for a person to try, in a local page; what they do is recorded as a trajectory.

    A recorded folder is a batch that the inbox takes. Ctrl-C ends it, and keeps what was recorded.
    """
    root = _root()
    from dagster_project.parse import read_size
    from dagster_project.view.play import play as serve

    folder = serve(
        root, name, out or root / "data" / "played", read_size(size), seed, lambda address: print(address, flush=True)
    )
    print(f"recorded in {folder}" if folder else "nothing was done, so nothing is recorded")


@app.command()
def probe(
    name: Annotated[str, typer.Argument(metavar="APP", help="id of an app of the catalogue")],
    tasks: Annotated[int, typer.Option(min=0, help="how many tasks to propose and prove")] = 12,
    seed: Annotated[int, typer.Option(help="of the tasks")] = 1,
) -> None:
    """Probe one app and prove a few tasks on it, as the stages do with all. Writes nothing."""
    root = _root()
    from dagster_project.trial import report

    lines, works = report(root, name, tasks, seed)
    for line in lines:
        print(line)
    if not works:
        sys.exit(1)


@app.command()
def export(
    what: Annotated[str, typer.Argument(metavar="grounding", help="which samples")],
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="is made; must be empty if it is there")],
    split: Annotated[str, typer.Option(help="train | heldout")] = "heldout",
) -> None:
    """Write samples as pictures and ScreenSpot-style annotation files, which other people's evaluators read."""
    if what != "grounding":
        raise ParameterError(f"'{what}' can't be exported; there is: grounding")
    if split not in ("train", "heldout"):
        raise ParameterError(f"no split '{split}'; there are: train, heldout")
    from assets.synthetic_samples.annotations import export_annotations

    counts = export_annotations(_root() / "data" / "grounding_samples", to, split)
    print(", ".join(f"{count} {name}" for name, count in counts.items()), f"in {to}")


@app.command(name="import")
def import_(
    path: Annotated[Path, typer.Argument(help="a folder of trajectories, see docs/new_data.md; it stays where it is")],
    name: Annotated[str | None, typer.Option(help="of the batch; default: the folder's")] = None,
) -> None:
    """Take trajectories of somebody else now, without the inbox. What can't be taken is said and kept aside.

    The exit code is 9 if some of it was taken and some was not, 6 if nothing was.
    """
    root = _root()
    project = _project(root)
    from dagster_project.automation import load_automation, record
    from dagster_project.inbox import FolderInbox, HandedFolder, take_inbox

    if not path.is_dir():
        raise ParameterError(f"{path} is no folder: a batch is one")
    handed = HandedFolder(path, name or path.resolve().name, FolderInbox(root / "inbox"))
    arrivals = take_inbox(project, handed, load_automation(root).limits(), 0.0)
    if not arrivals:
        raise InputError(f"{path} changed while it was read: import it when it is complete")
    if arrivals[0].refused:
        raise InputError(str(arrivals[0]))
    from dagster_project import launch

    record(project, launch.open_instance(root))
    print(arrivals[0])
    if arrivals[0].rejections:
        sys.exit(PARTIAL)


@app.command()
def ablate(
    variants: Annotated[list[str] | None, typer.Argument(help="of `ablation` in params.yaml; default: all")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="runs of each; default: ablation.seeds")] = None,
) -> None:
    """What each part of distillation gives: train variants of it and compare them on held-out samples.

    The table also goes to MLflow. Runs that are finished are kept: an interrupted ablation goes on where it was.
    """
    root = _root()
    from dagster_project.ablation import ablate as compare
    from dagster_project.ablation import as_markdown

    rows = compare(root, variants or [], seeds, lambda line: print(line, file=sys.stderr, flush=True))
    print(as_markdown(rows), end="")


@app.command()
def serve(
    model: Annotated[
        str, typer.Argument(metavar="MODEL_FOLDER|ALIAS", help="a folder, or an alias of the registry")
    ] = "champion",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one")] = 8000,
    name: Annotated[str | None, typer.Option(help="what requests call it; default: MODEL's last part")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="of an answer, where a request does not say")] = 512,
    threads: Annotated[int | None, typer.Option(min=1, help="of torch")] = None,
) -> None:
    """Serve a model to OpenAI-compatible clients on this machine: /v1/models, /v1/chat/completions. Ctrl-C ends it."""
    root = _root()
    from assets.agent import server
    from dagster_project.serving import find_model

    folder = find_model(root, model)
    server.serve(
        folder,
        server.project_system_prompt(root),
        port,
        name or Path(model).resolve().name,
        max_new_tokens,
        threads,
        lambda ready: print(f"{ready.name} answers at {ready.address}", flush=True),
    )


@app.command()
def plan(
    name: Annotated[str | None, typer.Option("--profile", help="of infra/profiles; default: params.yaml")] = None,
    gpus: Annotated[int, typer.Option(min=1, help="that share the training")] = 1,
    memory: Annotated[list[float] | None, typer.Option(metavar="GIB", help="of one GPU; may be repeated")] = None,
    checkpointing: Annotated[bool, typer.Option(help="compute activations again in the backward pass")] = True,
    rows: Annotated[int | None, typer.Option(min=1, help="most rows in one pass, instead of the profile's")] = None,
    question_tokens: Annotated[int | None, typer.Option(min=1, help="of an instruction with its history")] = None,
    answer_tokens: Annotated[int | None, typer.Option(min=1, help="of an answer in the data")] = None,
    teraflops: Annotated[float | None, typer.Option(help="a GPU really does, to estimate seconds a step")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="for programs: one object, in bytes")] = False,
) -> None:
    """What training a profile's model needs: memory by part, tokens a step, the ZeRO stage, what it does not fit in.

    Nothing is downloaded and nothing allocated: the model is built on torch's meta device.
    """
    root = _root()
    from dagster_project.capacity import plan_training

    params = root / "params.yaml" if name is None else _profile_file(root, name)
    plan_training(
        params,
        gpus,
        memory or [],
        checkpointing,
        rows,
        question_tokens,
        answer_tokens,
        teraflops,
        as_json,
        _console(),
    )


# --- profiles --------------------------------------------------------------------------------------------------------


def use_profile(root: Path, name: str) -> None:
    """Put infra/profiles/NAME.yaml in the place of params.yaml, keeping the old file in .hesper.

    Raises:
        ParameterError: there is no such profile, or it is not valid YAML.
    """
    from assets.stage import load_yaml

    source, target = _profile_file(root, name), root / "params.yaml"
    load_yaml(source)
    if target.is_file() and target.read_bytes() == source.read_bytes():
        print(f"params.yaml is the profile '{name}' already")
        return
    backup = root / ".hesper" / "params.before.yaml"
    backup.parent.mkdir(exist_ok=True)
    if target.is_file():
        shutil.copyfile(target, backup)
    shutil.copyfile(source, target.with_name("params.yaml.partial"))
    os.replace(target.with_name("params.yaml.partial"), target)
    print(f"params.yaml is now the profile '{name}'; `hesper profile --restore` brings back what it was")


def _profile_file(root: Path, name: str) -> Path:
    if name not in _profiles(root):
        raise ParameterError(f"no profile '{name}' in infra/profiles; there are: {', '.join(_profiles(root))}")
    return root / "infra" / "profiles" / f"{name}.yaml"


def _profiles(root: Path) -> list[str]:
    return sorted(path.stem for path in (root / "infra" / "profiles").glob("*.yaml"))


# --- inside ----------------------------------------------------------------------------------------------------------


def _root() -> Path:
    """The project, made known to everything this process loads and starts."""
    import warnings

    from assets.stage import project_root

    warnings.filterwarnings("ignore", category=Warning, module="dagster")
    root = project_root(Path(os.environ["HESPER_ROOT"]) if "HESPER_ROOT" in os.environ else None)
    os.environ["HESPER_ROOT"] = str(root)
    return root


def _project(root: Path) -> Project:
    from assets.stage import load_yaml
    from dagster_project.materialise import Project

    for name in ("params.yaml", "dvc.yaml"):
        load_yaml(root / name)  # says where broken YAML is broken, which DVC does not
    return Project.open(root)


def _select(project: Project, names: Sequence[str], only: bool) -> list[str]:
    """The addresses to materialise: those named and, unless `only`, all stages they are made from."""
    import difflib

    known = [stage.address(key) for stage in project.lineage.stages for key in stage.keys]
    known += [stage.name for stage in project.lineage.stages]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(dict.fromkeys(known))}"
            raise ParameterError(f"no stage '{name}' in dvc.yaml; {hint}")
    if not names:
        return [stage.name for stage in project.lineage.stages]
    if only:
        return list(names)
    named = {name.partition("@")[0] for name in names}
    above = project.lineage.ancestors([name.partition("@")[0] for name in names]) - named
    return [*above, *names]


def _check_disk(root: Path) -> None:
    """Say now, not in the middle of the night, that the disk takes no more."""
    folder = root / ".hesper"
    try:
        folder.mkdir(exist_ok=True)
        probe = folder / "probe.partial"
        try:
            with probe.open("wb") as stream:
                stream.write(b"\0" * (1 << 20))
                stream.flush()
                os.fsync(stream.fileno())
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        raise _foreseen(error) or StorageError(f"{folder} can't be written: {error}") from error


def _foreseen(error: BaseException) -> HesperError | None:
    """What a failure of the disk or of a database means, wherever in the chain of causes it is."""
    import errno
    import sqlite3

    cause: BaseException | None = error
    while cause is not None:
        text = str(cause)
        if isinstance(cause, HesperError):
            return cause
        if isinstance(cause, OSError):
            if cause.errno in (errno.ENOSPC, errno.EDQUOT):
                return StorageError(f"the disk is full ({cause.filename or cause})")
            if cause.errno == errno.EROFS:
                return StorageError(f"the disk is read-only ({cause.filename or cause})")
            if isinstance(cause, PermissionError):
                return StorageError(f"no permission to write {cause.filename or cause}")
        if isinstance(cause, sqlite3.Error):
            if "full" in text:
                return StorageError("the disk is full (a database could not grow)")
            if "readonly" in text or "unable to open" in text:
                return StorageError(f"a database can't be written: {text}")
            if "locked" in text:
                return TrackingError(f"a database is locked by another program: {text}")
        cause = cause.__cause__ or cause.__context__
    return None


def _fail(error: HesperError) -> None:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(error.exit_code)


def _print_start(address: str) -> None:
    if sys.stderr.isatty():
        print(f"{address} ...", file=sys.stderr, end="\r", flush=True)


def _print_outcome(outcome: Outcome) -> None:
    print(f"{outcome.address:<32} {outcome.state:<7} {outcome.seconds:8.1f} s", flush=True)


def _print_table(project: Project, outcomes: Sequence[Outcome], total: float) -> None:
    from rich.markdown import Markdown
    from rich.table import Table

    console = _console()
    table = Table("asset", "", "seconds", "of which the stage's own", "id")
    for outcome in outcomes:
        if outcome.state == "failed":
            table.add_row(outcome.address, "FAILED", "", "", "")
            continue
        identity = project.versions.output(outcome.address).id or ""
        work = f"{outcome.work_seconds:.1f}" if outcome.work_seconds else ""
        table.add_row(outcome.address, outcome.state, f"{outcome.seconds:.1f}", work, identity)
    console.print(table)
    for stage in project.lineage.stages:
        gains = project.root / next(iter(stage.output.values())) / "gains.md"
        if gains.is_file():
            console.print(Markdown(gains.read_text(encoding="utf-8")))
    own = sum(outcome.work_seconds for outcome in outcomes)
    line = f"total {total:.1f} s; the stages' own work {own:.1f} s"
    if own:
        line += f"; orchestration {total - own:.1f} s, {100 * (total - own) / total:.1f} % of the total"
    print(line)


def _label(ancestry: Ancestry, identity: str) -> str:
    runs = ancestry.runs.get(identity, [])
    mark = "" if identity in ancestry.current or not ancestry.parents.get(identity) else "  (not the current version)"
    return f"{ancestry.name[identity]}  {identity}{f'  MLflow run {runs[-1]}' if runs else ''}{mark}"


def _grow(tree: Any, identity: str, ancestry: Ancestry, following: Any, seen: set[str]) -> None:
    """Add a branch for each neighbour; what was shown once is not unfolded again."""
    for other in following(identity):
        branch = tree.add(_label(ancestry, other) + ("  (above)" if other in seen and following(other) else ""))
        if other not in seen:
            seen.add(other)
            _grow(branch, other, ancestry, following, seen)


def _console() -> Any:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, highlight=False, soft_wrap=not sys.stdout.isatty())


if __name__ == "__main__":
    main()
