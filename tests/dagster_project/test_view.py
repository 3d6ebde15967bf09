"""`hesper view environments` in a real browser."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from assets.environments.chromium import find_chromium
from assets.environments.environments import apps_schema
from assets.errors import InputError
from assets.stage import write_parquet
from dagster_project.view.environments import write_environments


def picture(color: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (360, 720), color).save(buffer, "PNG")
    return buffer.getvalue()


def row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"app-{number}", "platform": "mobile", "kind": "phone", "title": f"App {number}", "locale": "en",
        "split": "train", "category": "notes", "scale": "full", "source": "apps/x.yaml",
        "screens": ["start", "dialog:ask"], "reached": ["start", "dialog:ask"], "elements": 5, "actions": 7,
        "tile": number, "digest": "0" * 16, "trouble": "", "fault": "",
        "screenshot": {"bytes": picture("teal"), "path": "x.png"}, **changes,
    }  # fmt: skip


APPS = [
    *(row(number) for number in range(300)),
    row(300, title="</script><b>银行", category="banking", locale="zh"),
    row(301, platform="web", kind="site", scale="small", reached=["start"], trouble="not reached: dialog:ask",
        fault="app"),
    row(302, platform="desktop", kind="desktop", screenshot=None, trouble="no power", fault="infrastructure"),
]  # fmt: skip


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    (root / "data" / "environments").mkdir(parents=True)
    write_parquet(root / "data" / "environments" / "apps.parquet", APPS, apps_schema())
    return write_environments(root)


@pytest.fixture
def page(catalogue: Path) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if not _own(request.url) else None)
        page.goto(catalogue.as_uri())
        yield page
        assert problems == []
        browser.close()


def _own(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:"))


def shown(page: Page) -> list[str]:
    return page.locator(".app:visible b").all_inner_texts()


def test_the_catalogue_is_searched_filtered_and_looked_at(page: Page) -> None:
    assert page.locator("#count").inner_text() == "303 apps"
    assert page.locator(".app img").count() == 302
    page.get_by_label("Search").fill("银行 dialog:ask")
    assert shown(page) == ["</script><b>银行"]
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function("document.getElementById('count').textContent === '303 apps'")
    page.get_by_label("platform").select_option("web")
    assert shown(page) == ["App 301"]
    page.locator("summary").click()
    assert "mobile" not in page.locator("#coverage").inner_text()
    page.locator(".app:visible").click()
    facts = page.locator("dialog").inner_text()
    assert "not reached: dialog:ask (app)" in facts
    assert "hesper play app-301" in facts
    assert page.locator("dialog .chip.missing").all_inner_texts() == ["dialog:ask"]
    page.get_by_role("button", name="Close").click()
    page.reload()
    assert shown(page) == ["App 301"], "the address keeps the filters"


def test_coverage_counts_and_leads_to_apps(page: Page) -> None:
    page.locator("summary").click()
    table = page.locator("#coverage table").first
    assert table.locator("tr").nth(2).inner_text().split() == ["mobile", "301", "301", "602", "602"]
    page.locator("#coverage").get_by_role("button", name="banking").click()
    assert page.locator("#count").inner_text() == "1 of 303 apps"
    page.get_by_label("category").select_option("")
    page.get_by_label("probe").select_option("infrastructure")
    assert shown(page) == ["App 302"]


def test_the_page_is_fast(page: Page) -> None:
    begun = time.monotonic()
    page.get_by_label("Search").fill("app 12")
    assert page.locator("#count").inner_text() == "13 of 303 apps"
    assert time.monotonic() - begun < 5


def test_without_a_catalogue_there_is_nothing_to_see(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="hesper run environments"):
        write_environments(tmp_path)
