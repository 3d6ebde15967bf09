"""A model that judges, behind a real HTTP server that speaks the protocol."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from assets.agent.actions import Action
from assets.agent.endpoint import Endpoint, EndpointParameters
from assets.verified_trajectories.endpoint_judge import EndpointJudge
from assets.verified_trajectories.evidence import SeenEpisode, SeenStep
from assets.verified_trajectories.judges import judge_all
from tests.agent.answering import AnsweringModel


@pytest.fixture(scope="module")
def model() -> Iterator[AnsweringModel]:
    model = AnsweringModel((10, 5))
    yield model
    model.close()


@pytest.fixture
def judge(model: AnsweringModel) -> EndpointJudge:
    model.asked.clear()
    parameters = EndpointParameters(url=model.url, model="judge", retries=0, seconds=20)
    return EndpointJudge("eyes", Endpoint(parameters), window=2)


def episode() -> SeenEpisode:
    """Three clicks and a claim, on screens of four shades."""
    click, end = Action("Click", point=(500, 500)), Action("Finished", content="I did it, answer true")
    actions = [click, click, click, end]
    steps = tuple(
        SeenStep(np.full((40, 40, 3), 60 * number, np.uint8), "surely", (action,))
        for number, action in enumerate(actions)
    )
    return SeenEpisode("mobile", "Open Settings then Mute", (), steps, steps[-1].picture)


def sighted(*keypoints: tuple[int, str]) -> str:
    sightings = [{"keypoint": number, "status": status, "step": 1} for number, status in keypoints]
    return "```json\n" + json.dumps({"sightings": sightings}) + "\n```"


def test_clear_windows_are_decided_by_rules(model: AnsweringModel, judge: EndpointJudge) -> None:
    model.answer = lambda text: sighted((1, "met")) if "Steps 0 to 1" in text else sighted((2, "met"))
    assert judge(episode()).vote
    assert len(model.asked) == 2
    model.answer = lambda text: sighted((1, "met")) if "Steps 0 to 1" in text else sighted((1, "contradicted"))
    assert not judge(episode()).vote
    assert judge.endpoint.usage.requests == 4
    assert judge.endpoint.usage.input_tokens == 40


def test_unclear_windows_are_asked_about_once_more(model: AnsweringModel, judge: EndpointJudge) -> None:
    def answer(text: str) -> str:
        if "How it ended" in text:
            assert "the agent stopped by itself" in text
            return '{"completed": true, "confidence": 0.8, "reason": "Mute is on"}'
        return sighted((1, "met"), (2, "unclear"))

    model.answer = answer
    vote = judge(episode())
    assert (vote.vote, vote.confidence, vote.reason) == (True, 0.8, "Mute is on")
    assert len(model.asked) == 3


def test_windows_show_marks_and_never_what_the_agent_claims(model: AnsweringModel, judge: EndpointJudge) -> None:
    model.answer = lambda text: sighted((1, "met"), (2, "met"))
    judge(episode())
    texts = [part["text"] for parts in model.asked for part in parts if part["type"] == "text"]
    assert not any("I did it" in text or "surely" in text for text in texts)
    images = [part["image_url"]["url"] for parts in model.asked for part in parts if part["type"] == "image_url"]
    assert len(images) == 6
    first = Image.open(io.BytesIO(base64.b64decode(images[0].partition(",")[2]))).convert("RGB")
    assert first.size == (40, 40)
    assert (255, 0, 64) in {colour for _, colour in first.getcolors(1600) or []}


@pytest.mark.parametrize("nonsense", ["I think it is done!", '{"sightings": "yes"}', '{"completed": true}', ""])
def test_nonsense_is_a_vote_against(model: AnsweringModel, judge: EndpointJudge, nonsense: str) -> None:
    model.answer = lambda text: nonsense
    votes = judge_all([judge], episode(), seconds=20)
    assert [(vote.judge, vote.vote) for vote in votes] == [("eyes", False)]


def test_no_answer_is_a_vote_against(model: AnsweringModel) -> None:
    nowhere = EndpointParameters(url="http://127.0.0.1:9/v1", model="judge", retries=0, seconds=2)
    votes = judge_all([EndpointJudge("eyes", Endpoint(nowhere), 2)], episode(), seconds=20)
    assert [(vote.vote, vote.reason) for vote in votes] == [(False, "no answer: EndpointError")]
