"""Researchers: what the specs say, and what a model behind a real HTTP server adds to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from assets.agent.endpoint import Endpoint, EndpointParameters, Prices
from assets.environments.catalogue import catalogue
from assets.generated_tasks.research import EXPLORATION, EndpointResearcher, OfflineResearcher, documents
from tests.agent.answering import AnsweringModel

CATALOGUE = {app.id: {**asdict(app), "reached": list(app.screens), "elements": 6} for app in catalogue()}
MAIL, MIXER = CATALOGUE["mail-en"], CATALOGUE["mixer"]


@pytest.fixture
def model() -> Iterator[AnsweringModel]:
    model = AnsweringModel((1000, 100))
    yield model
    model.close()


def researcher(model: AnsweringModel, folder: Path | None = None) -> EndpointResearcher:
    prices = Prices(input=2.0, output=10.0)
    return EndpointResearcher(
        Endpoint(EndpointParameters(url=model.url, model="reader", retries=0, seconds=20, prices=prices)), folder
    )


def items(*found: dict[str, Any]) -> str:
    return json.dumps({"capabilities": [{"source": "apps/mail-en.yaml", "signature": "x()", **item} for item in found]})


def test_offline_findings_have_sources_and_say_what_can_be_combined() -> None:
    (found,) = OfflineResearcher().research([MAIL])
    known = {capability.id: capability for capability in found.capabilities}
    mute = known["mail-en/settings/Mute"]
    assert (mute.signature, mute.preconditions, mute.place) == ("set(Mute: bool)", ("settings is open",), "settings")
    assert mute.sources == ("apps/mail-en.yaml", EXPLORATION)
    assert "mail-en/settings/Sync" in mute.compatible
    assert "mail-en/settings/Mute" in known["mail-en/start/Menu"].compatible  # that is where it leads
    assert known["mail-en/drafts/drafts"].signature == "open(message: row of drafts)"
    assert "Ticket" in known["mail-en/drafts/drafts"].entities


def test_a_place_that_the_walk_did_not_reach_is_not_its_finding() -> None:
    (found,) = OfflineResearcher().research([{**MAIL, "reached": ["start"]}])
    sources = {capability.place: capability.sources for capability in found.capabilities}
    assert EXPLORATION in sources["start"]
    assert EXPLORATION not in sources["settings"]
    assert "not reached: drafts" in documents({**MAIL, "reached": ["start"]})[-1].text


@pytest.mark.parametrize("scale", ["small", "full"])
def test_every_app_has_capabilities_of_its_own(scale: str) -> None:
    apps = [app for app in CATALOGUE.values() if app["scale"] == scale]
    found = OfflineResearcher().research(apps)
    assert all(finding.capabilities for finding in found)
    ids = [capability.id for finding in found for capability in finding.capabilities]
    assert len(set(ids)) == len(ids)
    for finding in found:
        own = {capability.id for capability in finding.capabilities}
        assert all(set(capability.compatible) <= own - {capability.id} for capability in finding.capabilities)


def test_a_model_adds_what_the_documents_bear_out(model: AnsweringModel) -> None:
    model.answer = lambda text: (
        "Here it is:\n"
        + items(
            {
                "id": "mail-en/settings/Mute",
                "preconditions": ["it rings"],
                "compatible": ["mail-en/start/Send", "no/such"],
            },
            {"signature": "answer(Reply: draft)", "entities": ["Reply"]},
            {"signature": "fax(Letter)", "entities": ["Letter"]},
            {"signature": "print(Print)", "entities": ["Print"], "source": "somebody said so"},
        )
    )
    asked = researcher(model)
    (found,) = asked.research([MAIL])
    known = {capability.id: capability for capability in found.capabilities}
    mute = known["mail-en/settings/Mute"]
    assert "it rings" in mute.preconditions
    assert "settings is open" in mute.preconditions
    assert "mail-en/start/Send" in mute.compatible
    assert "no/such" not in mute.compatible
    assert mute.sources[-1] == "endpoint: apps/mail-en.yaml"
    assert known["mail-en/found/answer(Reply: draft)"].entities == ("Reply",)
    assert (found.fallback, found.refused, found.added) == ("", 2, 1)
    assert asked.endpoint.usage.cost == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("I don't know that app.", "without capabilities"),
        ('{"capabilities": []}', "without capabilities"),
        ('{"capabilities": "many"}', "without capabilities"),
        (items({"entities": ["Letter"]}), "bear out"),
        (500, "HTTP 500"),
    ],
)
def test_an_app_without_a_sound_answer_keeps_its_offline_findings(
    model: AnsweringModel, answer: str | int, reason: str
) -> None:
    model.answer = lambda text: items({"id": "mail-en/start/Send"}) if "mail-en.yaml" in text else answer
    mail, mixer = researcher(model).research([MAIL, MIXER])
    assert mail.fallback == ""
    assert reason in mixer.fallback
    assert mixer.capabilities == OfflineResearcher().research([MIXER])[0].capabilities


def test_an_answer_is_paid_for_once(model: AnsweringModel, tmp_path: Path) -> None:
    model.answer = lambda text: items({"id": "mail-en/start/Send"})
    first = researcher(model, tmp_path).research([MAIL])
    assert researcher(model, tmp_path).research([MAIL]) == first
    assert len(model.asked) == 1
