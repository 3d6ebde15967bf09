"""A model folder as a policy: answers do not depend on the batch, and samples are matched in their order."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from assets.agent.actions import Action
from assets.agent.matching import Match
from assets.agent.model_policy import ModelPolicy, match_sample, prompt_of, score_samples
from assets.agent.observation import Observation
from assets.agent.samples import Sample
from tests.agent.micro_model import make_micro_model

WORDS = ("Save", "Open", "screen", "mobile", "web", "desktop")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with random weights."""
    return make_micro_model(tmp_path_factory.mktemp("models") / "micro", WORDS)


def screenshot(shade: int) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), (shade, 255 - shade, 128)).save(buffer, "PNG")
    return buffer.getvalue()


OBSERVATIONS = [
    Observation(screenshot(10), 64, 64, "mobile", "Save"),
    Observation(screenshot(10), 64, 64, "mobile", "Open", ("<action>Wait()</action>",)),
    Observation(screenshot(200), 64, 64, "web", "Open then Save"),
    Observation(screenshot(90), 64, 64, "desktop", "Save"),
]


def test_greedy_answers_do_not_depend_on_the_batch(folder: Path) -> None:
    policy = ModelPolicy(folder, max_new_tokens=12)
    together = policy.respond(OBSERVATIONS)
    alone = [policy.respond([observation])[0] for observation in OBSERVATIONS]
    assert together == alone == ModelPolicy(folder, max_new_tokens=12).respond(OBSERVATIONS)
    assert len(set(together)) > 1
    assert policy.name == "micro"


def test_sampled_answers_follow_the_seed(folder: Path) -> None:
    first, again, other = (
        ModelPolicy(folder, max_new_tokens=12, temperature=1.0, seed=seed).respond(OBSERVATIONS) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_no_observations_no_answers(folder: Path) -> None:
    assert ModelPolicy(folder, max_new_tokens=12).respond([]) == []


def test_a_note_is_shown_after_the_history(folder: Path) -> None:
    policy = ModelPolicy(folder, max_new_tokens=1)
    seen = OBSERVATIONS[1]
    noted = prompt_of(policy.processor, seen.screenshot, "mobile", "Open", (*seen.history, "Save"))
    plain = prompt_of(policy.processor, seen.screenshot, "mobile", "Open", seen.history)
    assert noted.prefix == plain.prefix
    assert noted.suffix[: len(plain.suffix) - 1] == plain.suffix[:-1]
    assert "Save" in policy.processor.tokenizer.decode(noted.suffix)


def test_samples_are_scored_in_their_order(folder: Path) -> None:
    """The verified action of every other sample is what the model answers, put into words it can parse."""
    policy = ModelPolicy(folder, max_new_tokens=12)
    base = [
        Sample(
            f"s/{index}",
            "mobile",
            "heldout",
            "s",
            seen.screenshot,
            64,
            64,
            seen.platform,
            seen.instruction,
            seen.history,
            "",
            (Action("Wait"),),
            (),
            "Wait",
        )
        for index, seen in enumerate(OBSERVATIONS)
    ]
    answers = policy.respond(OBSERVATIONS)
    expected = [match_sample(answer, sample) for answer, sample in zip(answers, base, strict=True)]
    assert score_samples(policy.model, policy.processor, base, 12) == expected
    assert score_samples(policy.model, policy.processor, base[::-1], 12) == expected[::-1]


def test_match_sample_uses_the_sample_s_own_boxes_and_platform() -> None:
    sample = Sample(
        "s/0", "web", "heldout", "s", b"", 100, 50, "web", "Save", (), "", (Action("Click", point=(100, 100)),),
        ((0.0, 0.0, 20.0, 10.0),), "Click",
    )  # fmt: skip
    assert match_sample("<action>Click(point=(199, 199))</action>", sample).correct
    assert not match_sample("<action>Click(point=(200, 199))</action>", sample).correct
    away = Match(True, 1.0, 0.0, 0.0, False)
    assert match_sample("<action>Click(point=(900, 900))</action>", sample) == away
    boxless = replace(sample, boxes=())
    assert match_sample("<action>Click(point=(150, 100))</action>", boxless, distance=0.1).coordinate == 0.5
