"""The stage: what a probe notices, and the same catalogue from the same apps."""

from __future__ import annotations

import io
import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image

from assets.agent.actions import Action
from assets.environments.adb.client import Phone
from assets.environments.adb.phones import Phones
from assets.environments.apps import load_heads
from assets.environments.catalogue import catalogue
from assets.environments.environments import (
    Job,
    Parameters,
    Processes,
    chosen,
    contact_sheet,
    ink,
    lost,
    probe_app,
    screen_of,
)
from assets.environments.session import Element, digest
from assets.environments.task import TaskContract
from assets.environments.trajectory import Screenshot
from assets.errors import InfrastructureError, ParameterError
from assets.stage import directory_id, execute

PROJECT = Path(__file__).parents[2]
PARAMETERS = Parameters(
    kinds=("phone", "site", "miniwob", "desktop"),
    scales=("small", "full"),
    screens={"mobile": (360, 720), "web": (1280, 720), "desktop": (1024, 768)},
    most=1,
    attempts=2,
    actions=40,
    waits=20,
    seconds=300,
    least_ink=0.005,
    processes=Processes(browsers=1, displays=1),
    thumbnail=64,
)


def png(*colors: str) -> bytes:
    image = Image.new("RGB", (20, 20), colors[0])
    for index, color in enumerate(colors[1:]):
        image.paste(color, (index * 2, 0, index * 2 + 2, 20))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


class Lamp:
    """A session with one switch on two screens, and one defect."""

    platform = "mobile"
    over = False

    def __init__(self, defect: str = "") -> None:
        self.defect = defect
        self.resets = 0

    def reset(self, task: TaskContract) -> None:
        self.resets += 1
        self.on, self.waited = False, 0
        self.dust = self.resets if self.defect == "state" else 0
        if self.defect == "broken" or (self.defect == "broken at first" and self.resets == 1):
            raise InfrastructureError("no power")
        if self.defect == "spec":
            raise ParameterError("the initial state sets 'x'")

    def observe(self) -> Screenshot:
        if self.defect == "blank":
            return Screenshot(png("white"), 20, 20)
        tint = f"#0000{self.resets:02x}" if self.defect == "picture" else "blue"
        return Screenshot(png("white", "red" if self.on else "black", tint), 20, 20)

    def act(self, action: Action) -> None:
        self.waited += action.name == "Wait"
        if action.name == "Wait":
            return
        self.on = not self.on and self.defect != "stuck"

    def state(self) -> dict[str, Any]:
        return {"on": self.on, "dust": self.dust, "view": {"screen": "lit" if self.on else "start", "dialog": None}}

    def digest(self) -> str:
        return digest(self.state())

    def elements(self) -> list[Element]:
        late = self.defect == "slow" and self.waited < 3
        return [] if self.defect == "empty" or late else [Element("Open", "switch", (0, 0, 4, 20), "open")]

    def snapshot(self) -> bool:
        return self.on

    def restore(self, snapshot: bool) -> None:
        self.on = False if self.defect == "snapshot" else snapshot


class OneSession:
    """Stands for the sessions of a process."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def get(self, platform: str, app: str, size: tuple[int, int]) -> Any:
        return self.session


def lamp_job() -> Job:
    app = next(app for app in catalogue() if app.kind == "miniwob")
    return Job(replace(app, screens=("start", "lit")), (20, 20), PARAMETERS)


@pytest.mark.parametrize(
    ("defect", "trouble", "fault"),
    [
        ("", "", ""),
        ("broken at first", "", ""),
        ("slow", "", ""),
        ("broken", "no power", "infrastructure"),
        ("spec", "the initial state sets 'x'", "app"),
        ("blank", "the screen is blank", "app"),
        ("empty", "nothing on the screen can be acted on", "app"),
        ("state", "a reset leads to another state", "app"),
        ("picture", "a reset leads to another picture", "app"),
        ("snapshot", "a snapshot does not come back as it was", "app"),
        ("stuck", "not reached by 1 actions: lit", "app"),
    ],
)
def test_a_probe_notices(defect: str, trouble: str, fault: str) -> None:
    probe = probe_app(OneSession(Lamp(defect)), lamp_job())  # type: ignore[arg-type]
    assert (probe.trouble, probe.fault) == (trouble, fault)
    if not trouble:
        assert probe.reached == ("start", "lit")


def test_a_process_that_died_is_no_fault_of_the_app() -> None:
    assert lost(lamp_job(), InfrastructureError("died")).fault == "infrastructure"


def test_ink_and_contact_sheet() -> None:
    assert ink(png("white")) == 0
    assert ink(png("white", "black")) == pytest.approx(0.1)
    sheet = contact_sheet([png("red"), b"", png("blue")], side=20, across=2)
    assert sheet.size == (2 * 24 + 4, 2 * 24 + 4)
    assert [sheet.getpixel(place) for place in ((14, 14), (38, 14), (14, 38))] == [
        (255, 0, 0), (128, 128, 128), (0, 0, 255),
    ]  # fmt: skip


def test_the_catalogue_has_every_kind_and_the_parameters_choose() -> None:
    apps = catalogue()
    assert len({app.id for app in apps}) == len(apps)
    count = {kind: sum(app.kind == kind for app in apps) for kind in ("phone", "site", "miniwob", "desktop")}
    assert count["phone"] >= 12
    assert count["site"] >= 10
    assert count["miniwob"] >= 24
    assert count["desktop"] >= 1
    few = chosen(apps, PARAMETERS)
    groups = {(app.kind, app.scale, app.split) for app in apps}
    assert {(app.kind, app.scale, app.split) for app in few} == groups
    assert len(few) == len(groups)
    assert chosen(apps, PARAMETERS.model_copy(update={"most": 0})) == apps
    small = chosen(apps, PARAMETERS.model_copy(update={"most": 0, "scales": ("small",)}))
    assert small == [app for app in apps if app.scale == "small"]


def test_full_apps_have_the_screen_of_their_platform() -> None:
    apps = catalogue()
    for app in apps:
        size = screen_of(app, (192, 192), PARAMETERS)
        assert size == (
            (192, 192) if app.scale == "small" or app.kind == "miniwob" else PARAMETERS.screens[app.platform]
        )


def test_the_stage_gives_the_same_bytes_on_phones_of_its_own_and_on_one_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HESPER_TRACKING", "off")
    (tmp_path / "assets").symlink_to(PROJECT / "assets")
    (tmp_path / "dvc.yaml").symlink_to(PROJECT / "dvc.yaml")

    def probed(phone: str) -> str:
        (tmp_path / "params.yaml").write_text(
            "seed: 7\nagent: {screen: [192, 192], coordinate_digits: 3, system_prompt: brief, screenshots: 1}\n"
            f"phone: {{{phone}}}\n"
            "environments: {kinds: [phone, miniwob], scales: [small], screens: {mobile: [360, 720]}, most: 1,"
            " attempts: 2, actions: 200, waits: 0, seconds: 300, least_ink: 0.005,"
            " processes: {browsers: 2, displays: 1}, thumbnail: 64}\n",
            encoding="utf-8",
        )
        return execute("environments", root=tmp_path)

    identities = {probed("")}
    with closing(Phones()) as elsewhere:
        serial = elsewhere.add((192, 192))
        device = Phone(("127.0.0.1", elsewhere.port), serial, 60)
        assert json.loads(device.shell("hesper get"))["foreground"] == "launcher"
        identities.add(probed(f"adb: '127.0.0.1:{elsewhere.port}', serial: {serial}"))
        assert json.loads(device.shell("hesper get"))["foreground"] in load_heads()
    output = tmp_path / "data" / "environments"
    assert identities == {directory_id(output)}
    entries = json.loads((output / "catalogue.json").read_text(encoding="utf-8"))
    assert [entry["kind"] for entry in entries] == ["phone", "phone", "miniwob", "miniwob"]
    assert all(len(entry["digest"]) == 16 and entry["elements"] > 0 for entry in entries)
    metrics = json.loads((output / "metrics.json").read_text(encoding="utf-8"))
    assert (metrics["apps"], metrics["broken"], metrics["infrastructure_failures"]) == (4, 0, 0)
    assert metrics["screens_reached"] == metrics["screens"] > 2
    table = pq.read_table(output / "apps.parquet").to_pylist()
    assert [row["id"] for row in table] == [entry["id"] for entry in entries]
    assert all(Image.open(io.BytesIO(row["screenshot"]["bytes"])).size == (192, 192) for row in table)
    assert (output / "pictures" / "contact_sheet.png").stat().st_size > 0
