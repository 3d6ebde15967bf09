"""One step of mid-training is the mean loss of its answer tokens, however its screens are cut into fans."""

from __future__ import annotations

import io
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assets.agent.parameters import AgentParameters
from assets.agent.processor import Processor, make_image_processor
from assets.agent.prompts import SYSTEM_LINES
from assets.agent.tokenizer import make_tokenizer
from assets.checkpoints.midtrained_checkpoint import Parameters, _Lesson
from assets.checkpoints.ranks import Ranks
from assets.checkpoints.tiny_model import Architecture, make_model
from tests.checkpoints.small_project import PARAMS, WORDS, write_project

ARCHITECTURE = Architecture(
    hidden=32, decoder_layers=2, vision_layers=1, heads=2, attention="full", init_std=0.06, position_std=0.3
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    write_project(root)
    return root


def lesson(project: Path, system_prompt: str, **changes: Any) -> _Lesson:
    import torch

    torch.manual_seed(1)
    torch.set_num_threads(1)
    processor = Processor(make_tokenizer([*WORDS, *SYSTEM_LINES, "Click"]), make_image_processor())
    stage = SimpleNamespace(
        parameters=Parameters.model_validate({**PARAMS["midtrained_checkpoint"], **changes}),
        seed=1,
        input=lambda path: project / path,
        rng=lambda *names: random.Random(repr(names)),
        log=lambda message: None,
    )
    agent = AgentParameters.model_validate({**PARAMS["agent"], "system_prompt": system_prompt})
    model = make_model(ARCHITECTURE, processor.tokenizer)
    return _Lesson(stage, model, processor, agent, Ranks())  # type: ignore[arg-type]


def plain_loss(taught: _Lesson, asked: Any) -> Any:
    """The stock forward pass of each question by itself; the mean over all answer tokens."""
    import torch
    from PIL import Image

    model, losses = taught._model, []
    for screen, samples in asked:
        stock = taught._processor.images([Image.open(io.BytesIO(screen.image))], return_tensors="pt")
        for sample in samples:
            prompt, answer = taught._encode(sample)
            row = torch.tensor([[*prompt.prefix, *prompt.suffix, *answer]])
            logits = model(
                input_ids=row, mm_token_type_ids=(row == model.config.image_token_id).int(), use_cache=False, **stock
            ).logits
            scores = logits[0, -len(answer) - 1 : -1].log_softmax(-1)
            losses.append(-scores.gather(-1, torch.tensor(answer)[:, None])[:, 0])
    return torch.cat(losses).mean()


@pytest.mark.parametrize(("system_prompt", "logit_tokens"), [("brief", 4096), ("brief", 3), ("full", 4096)])
def test_a_step_is_the_mean_loss_of_its_answer_tokens(project: Path, system_prompt: str, logit_tokens: int):
    taught = lesson(project, system_prompt, perception=None, logit_tokens=logit_tokens)
    asked = taught._draw(0)
    assert {screen.domain for screen, _ in asked} == {"grounding", "captcha", "mobile"}
    assert len(taught._alike(asked)) > 1
    figures = taught.step(0)
    model = taught._model
    ours = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad()
    expected = plain_loss(taught, asked)
    expected.backward()
    assert figures == {"loss": pytest.approx(expected.item(), rel=1e-5)}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            difference = (ours[name] - parameter.grad).norm() / parameter.grad.norm().clamp_min(1e-7)
            assert difference < 1e-4, f"{name}: {difference:.1e}"


def test_what_and_where_goes_on_beside_the_answers(project: Path):
    taught = lesson(project, "brief")
    figures = taught.step(0)
    assert set(figures) == {"loss", "what", "where", "centre", "pointer"}
    assert all(parameter.grad is not None for parameter in taught.modules["heads"].parameters())


def test_a_screen_is_asked_at_most_so_many_questions_and_others_every_time(project: Path):
    taught = lesson(project, "brief", screens=8, questions=2)
    drawn = [taught._draw(step) for step in range(30)]
    assert all(len(samples) <= 2 for step in drawn for _, samples in step)
    sets: dict[bytes, set[tuple[str, ...]]] = {}
    for step in drawn:
        for screen, samples in step:
            if screen.domain == "grounding":
                sets.setdefault(screen.image, set()).add(tuple(sample.id for sample in samples))
    assert max(len(chosen) for chosen in sets.values()) > 1
    assert taught._draw(7) == drawn[7]


def test_domains_without_training_screens_leave_their_share_to_the_others(project: Path):
    taught = lesson(project, "brief", mix={"grounding": 0.5, "computer": 0.5})
    assert {screen.domain for step in range(5) for screen, _ in taught._draw(step)} == {"grounding"}
    assert len(taught._draw(0)) == 4
