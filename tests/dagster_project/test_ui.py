"""The real web pages in a real browser: the graph, a materialisation by clicking, and the way to its MLflow run."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.toy import clean_environment

PATIENCE = 240_000
"""Milliseconds to wait for a page or a run: the machine may be busy."""


@contextmanager
def ui(root: Path) -> Iterator[tuple[str, str]]:
    """`hesper ui` on free ports; the addresses of Dagster and MLflow.

    It starts as a shell starts what runs in the background: ignoring SIGINT, which must end it all the same.
    """
    command = [sys.executable, "-m", "dagster_project.cli", "ui", "--dagster-port", "0", "--mlflow-port", "0"]
    process = subprocess.Popen(
        command,
        cwd=root,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline(), process.stdout.readline()]
        addresses = [re.findall(r"http://127\.0\.0\.1:\d+", line)[0] for line in lines]
        yield addresses[0], addresses[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def materialise_by_clicking(root: Path, asset: str, neighbours: list[str], groups: list[str]) -> None:
    from playwright.sync_api import expect, sync_playwright

    from assets.environments.chromium import find_chromium

    with ui(root) as (dagster, mlflow), sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=flags)
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.set_default_timeout(PATIENCE)

        page.goto(f"{dagster}/asset-groups")
        tops = []
        for name in groups:
            group = page.get_by_text(name, exact=True).first
            expect(group).to_be_visible(timeout=PATIENCE)
            tops.append((group.bounding_box() or {"y": 0.0})["y"])
        assert tops == sorted(tops), "the sidebar shows the groups in lineage order"

        page.goto(f"{dagster}/assets/{asset}?view=lineage")
        for name in [asset, *neighbours]:
            expect(page.get_by_text(name, exact=True).first).to_be_visible(timeout=PATIENCE)

        page.goto(f"{dagster}/assets/{asset}?view=events")
        latest = page.get_by_text("Materialized in run").first.get_by_role("link")
        before = latest.inner_text()
        page.get_by_role("button", name=re.compile(r"Materialize\b")).first.click()
        deadline = time.monotonic() + PATIENCE / 1000
        while latest.inner_text() == before and time.monotonic() < deadline:
            page.wait_for_timeout(3000)
            page.reload()  # the page goes on showing the event that it showed
        assert latest.inner_text() != before
        latest.click()
        page.wait_for_url(re.compile("/runs/"))
        expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=PATIENCE)

        page.goto(f"{dagster}/assets/{asset}?view=events")
        link = page.locator(f"a[href^='{mlflow}']").first
        expect(link).to_be_visible(timeout=PATIENCE)
        address = link.get_attribute("href") or ""
        run = address.rsplit("/", 1)[-1]
        assert re.fullmatch("[0-9a-f]{32}", run)
        with page.context.expect_page() as opened:
            link.click()
        tracked = opened.value
        expect(tracked.get_by_text(run).first).to_be_visible(timeout=PATIENCE)
        expect(tracked.get_by_text(asset, exact=True).first).to_be_visible(timeout=PATIENCE)
        back = tracked.locator(f"a[href*='/assets/{asset}']").first  # in the run's description
        expect(back).to_be_visible(timeout=PATIENCE)
        browser.close()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_team_can_work_in_the_pages(toy_project: Path) -> None:
    materialise_by_clicking(toy_project, "first", ["second"], ["1_numbers", "2_models", "3_reports"])
