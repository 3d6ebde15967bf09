"""Grounding at full scale: verified targets a second beside plain Playwright, and what 20,000 screens cost."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from assets.environments.chromium import FLAGS, Chromium, find_chromium, screenshot
from assets.synthetic_samples.capture import CAPTURE_SCRIPT, accessibility, interface_page
from assets.synthetic_samples.interface_samples import Shard, ask
from assets.synthetic_samples.interfaces.scene import Interface, describe, interface
from assets.synthetic_samples.sheets import decode_png, encode_png
from tests.performance.__main__ import Comparison
from tests.performance.watched_stage import watch
from tests.synthetic_samples.full_scale import full_agent, full_parameters

ROOT = Path(__file__).parents[2]
SIZE = (1280, 720)
PAGES = 16
FULL = 20000
RUN = {"train": 1900, "heldout": 100}
SHARD = 100
BOXES = """() => [...document.querySelectorAll(
  "a[href], button, input, select, textarea, [role=button], [role=switch], [role=checkbox], [role=tab], [role=option]"
)].map((element) => {
  const box = element.getBoundingClientRect();
  return {name: element.getAttribute("aria-label") ?? element.innerText,
          box: [box.left, box.top, box.right, box.bottom]};
})"""
"""What a plain script asks of a page: the controls' names and boxes, none of it verified."""


def targets() -> Iterator[Comparison]:
    """The same pages, both ways, one process each."""
    parameters = full_parameters(SIZE)
    drawn = [_interface(number) for number in range(PAGES)]
    shard = Shard("train", 0, PAGES, parameters, full_agent(), Path())
    with ExitStack() as stack:
        page = stack.enter_context(interface_page())

        def ours() -> int:
            asked = [
                ask(random.Random(number), shard, it, page.capture(it.html, SIZE)) for number, it in enumerate(drawn)
            ]
            return sum(bool(question["boxes"]) for it in asked if it for question in it.row["questions"])

        context = stack.enter_context(_plain_context())

        def theirs() -> None:
            for number, it in enumerate(drawn):
                tab = context.new_page()
                tab.set_content(it.html)
                tab.screenshot()
                random.Random(number).choice(tab.evaluate(BOXES))
                tab.close()

        verified = ours()
        yield Comparison(
            "grounding_targets", f"a verified target with its instruction ({verified} on {PAGES} pages of 1280x720)",
            "plain Playwright: a page a sample, screenshot, evaluate for boxes, one target", ours, theirs,
            units=(verified, PAGES),
            note=f"{verified / PAGES:.1f} targets a page; where the time goes: {_where_the_time_goes(drawn, shard)}",
        )  # fmt: skip


def full() -> Iterator[Comparison]:
    """The stage as it is run, on the cores there are."""
    run = _draw()
    screens = sum(RUN.values())
    plain = _plain_seconds() * run.targets * FULL / screens / os.cpu_count() if run.targets else 0.0
    yield Comparison(
        "grounding_20000_screens", f"{FULL} screens of 1280x720, extrapolated from {screens}",
        "plain Playwright for as many targets, a process a core", lambda: run.seconds * FULL / screens / 3600,
        plain / 3600, runs=1, unit="hours",
        note=f"{run.seconds:.0f} s for {screens} screens and {run.targets} targets, {run.bytes / 1e6:.0f} MB: "
             f"{run.bytes / screens * FULL / 1e9:.2f} GB for {FULL}",
    )  # fmt: skip
    yield Comparison(
        "grounding_memory", f"memory of the stage at the end of {screens} screens", f"after {screens // 10}",
        lambda: run.last, run.first, runs=1, unit="megabytes",
        note="the stage, its processes and their browsers: private memory, mean over a tenth of the run; "
             f"highest {run.highest:.0f} MB",
    )  # fmt: skip


def _interface(number: int) -> Interface:
    rng = random.Random(f"bench/{number}")
    return interface(rng, describe(rng, "train", full_parameters(SIZE).scenes))


@contextmanager
def _plain_context() -> Iterator[Any]:
    """A context as Playwright makes it, of the same browser with the same flags."""
    chromium = Chromium()  # for its driver: a thread can have but one
    try:
        launched = chromium._driver.playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        yield launched.new_context(viewport={"width": SIZE[0], "height": SIZE[1]})
        launched.close()
    finally:
        chromium.close()


def _plain_seconds() -> float:
    """Of one sample the plain way, median over the pages."""
    seconds = []
    with _plain_context() as context:
        for number in range(PAGES):
            it = _interface(number)
            begun = time.perf_counter()
            tab = context.new_page()
            tab.set_content(it.html)
            tab.screenshot()
            tab.evaluate(BOXES)
            tab.close()
            seconds.append(time.perf_counter() - begun)
    return sorted(seconds)[len(seconds) // 2]


def _where_the_time_goes(drawn: list[Interface], shard: Shard) -> str:
    """Shares of the steps over all pages, each timed alone."""
    spent = dict.fromkeys(
        ("write the page", "load it", "measure", "name", "photograph", "decode", "ask", "encode"), 0.0
    )

    def timed(name: str, work: Any) -> Any:
        begun = time.perf_counter()
        result = work()
        spent[name] += time.perf_counter() - begun
        return result

    with interface_page() as page:
        for number, it in enumerate(drawn):
            timed("write the page", lambda number=number: _interface(number))
            timed("load it", lambda it=it: page.show(it.html, SIZE))
            timed("measure", lambda: page.page.evaluate(CAPTURE_SCRIPT))
            timed("name", lambda: accessibility(page.page))
            png = timed("photograph", lambda: screenshot(page.page))
            pixels = timed("decode", lambda png=png: decode_png(png))
            captured = page.capture(it.html, SIZE)
            begun, before = time.perf_counter(), spent["encode"]
            timed("encode", lambda pixels=pixels: encode_png(pixels))
            ask(random.Random(number), shard, it, captured)
            spent["ask"] += time.perf_counter() - begun - 2 * (spent["encode"] - before)
    total = sum(spent.values())
    return ", ".join(f"{name} {100 * seconds / total:.0f} %" for name, seconds in spent.items())


@dataclass(frozen=True)
class _Run:
    """Memory in megabytes, time in seconds."""

    targets: int
    seconds: float
    bytes: int
    first: float
    last: float
    highest: float


def _draw() -> _Run:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "assets").symlink_to(ROOT / "assets")
        shutil.copy(ROOT / "dvc.yaml", root)
        document = yaml.safe_load((ROOT / "infra/profiles/9b.yaml").read_text(encoding="utf-8"))
        section = document["grounding_samples"]
        section["screens"] = RUN
        section["interfaces"] |= {"shard": SHARD, "processes": os.cpu_count()}
        section["interfaces"]["scenes"] |= {
            "platforms": {"web": 0.5, "desktop": 0.5},
            "screens": {"web": [list(SIZE)], "desktop": [list(SIZE)]},
        }
        (root / "params.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        seconds, seen = watch(root, "grounding_samples", lambda: _share_drawn(root))
        output = root / "data/grounding_samples"
        metrics = yaml.safe_load((output / "metrics.json").read_text())
        size = sum(file.stat().st_size for file in output.rglob("*") if file.is_file())
    first = [size for share, size in seen if 0.1 <= share < 0.2]
    last = [size for share, size in seen if 0.85 <= share < 1]
    targets_ = sum(metrics[f"{split}_questions"] - metrics[f"{split}_absent"] for split in RUN)
    return _Run(
        targets=int(targets_),
        seconds=seconds,
        bytes=size,
        first=sum(first) / len(first),
        last=sum(last) / len(last),
        highest=max(size for _, size in seen),
    )


def _share_drawn(root: Path) -> float:
    done = [path for path in (root / ".hesper/work").glob("*/*/*-*") if path.suffix != ".partial"]
    return len(done) * SHARD / sum(RUN.values())


BENCHMARKS = {"grounding_targets": targets, "grounding_full": full}
