"""base_model: made from scratch it learns what is where; a named checkpoint is taken as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from assets.agent.processor import Processor, make_image_processor
from assets.agent.samples import Element, Screen
from assets.agent.tokenizer import NOTHING, make_tokenizer, token_id
from assets.checkpoints.perception import Perception, PerceptionWeights, cover
from assets.checkpoints.tiny_model import Architecture, make_model, whiten_patches
from tests.checkpoints.small_project import screenshot

TOKENIZER = make_tokenizer(["Save", "Open", "发送", "Mute"])
ARCHITECTURE = Architecture(
    hidden=32, decoder_layers=4, vision_layers=2, heads=2, attention="full", init_std=0.06, position_std=0.3
)


def screen(*elements: Element, size: tuple[int, int] = (96, 64)) -> Screen:
    return Screen(screenshot(1, size), *size, "grounding", (), elements)


def words(made) -> list[str]:
    return [TOKENIZER.decode([index]) for index in made.what.tolist()]


def test_each_visual_token_is_labelled_by_what_covers_most_of_it():
    made = cover(
        screen(Element("Save", "button", (0, 0, 40, 32)), Element("Open file", "link", (36, 0, 96, 32))),
        grid=(2, 3),
        tokenizer=TOKENIZER,
        bins=6,
    )
    assert words(made) == ["Save", "Open", "Open", NOTHING, NOTHING, NOTHING]
    # centres (20, 16) and (66, 16) of 96 x 64, in sixths
    assert made.centre.tolist() == [[1, 1], [4, 1], [4, 1], [-100, -100], [-100, -100], [-100, -100]]


def test_elements_without_a_label_cover_nothing():
    made = cover(screen(Element("", "icon", (0, 0, 96, 64))), (2, 3), TOKENIZER, 6)
    assert set(made.what.tolist()) == {token_id(TOKENIZER, NOTHING)}


def test_what_and_where_can_be_learned_from_the_visual_tokens():
    import torch

    from assets.agent import fan

    torch.manual_seed(0)
    torch.set_num_threads(1)
    processor = Processor(TOKENIZER, make_image_processor())
    model = make_model(ARCHITECTURE, TOKENIZER)
    screens = [
        Screen(
            screenshot(number, (64, 64)),
            64,
            64,
            "grounding",
            (),
            (Element("Save", "button", (0, 0, 64, 32)), Element("发送", "button", (0, 32, 32 + 32 * (number % 2), 64))),
        )
        for number in range(2)
    ]
    eyes = Perception(model, processor, PerceptionWeights(what=1, where=0.5, centre=0.5, centre_bins=8), screens[0])
    optimizer = torch.optim.AdamW([*model.parameters(), *eyes.heads.parameters()], lr=2e-3)
    shown = fan.stack_images(processor, [processor.patches(item.image) for item in screens])

    def look() -> torch.Tensor:
        return fan.encode_images(model, shown)

    before = eyes.losses(look(), screens, len(screens), eyes.covered(screens))
    for _ in range(60):
        optimizer.zero_grad()
        eyes.weighted(eyes.losses(look(), screens, len(screens), eyes.covered(screens))).backward()
        optimizer.step()
    after = eyes.losses(look(), screens, len(screens), eyes.covered(screens))
    assert all(after[part] < 0.2 * before[part] for part in ("what", "where", "centre"))
    assert eyes.accuracy(look(), screens) == {"words_read": 1.0, "centres_told": 1.0}


def test_patch_embedding_starts_out_whitening():
    """Over the patches it was made from, every direction of the embedding varies as much, and apart from the others."""
    import torch

    from assets.agent import fan

    torch.manual_seed(0)
    model = make_model(ARCHITECTURE, TOKENIZER)
    pixels = torch.randn(4, 400, 40) @ torch.randn(40, 768) * torch.linspace(0.01, 2, 768) + 0.5
    whiten_patches(model, pixels)
    embed = model.model.visual.patch_embed.proj
    stock = pixels.view(-1, 3, 1, 16, 16).expand(-1, -1, 2, -1, -1)
    embedded = embed(stock).view(-1, ARCHITECTURE.hidden)
    torch.testing.assert_close(embedded.mean(0), torch.zeros(32), rtol=0, atol=1e-2)
    torch.testing.assert_close(embedded.T @ embedded / len(embedded), torch.eye(32), rtol=0, atol=1e-2)
    assert fan.encode_images(model, fan.Images(pixels[:, :16], (4, 4))).isfinite().all()


def test_hybrid_architecture_has_one_full_attention_layer_in_four():
    import torch

    torch.manual_seed(0)
    hybrid = make_model(ARCHITECTURE.model_copy(update={"attention": "hybrid"}), TOKENIZER)
    assert hybrid.config.text_config.layer_types == ["linear_attention"] * 3 + ["full_attention"]


def test_same_seed_gives_the_same_weights():
    import torch

    made = []
    for _ in range(2):
        torch.manual_seed(5)
        made.append(make_model(ARCHITECTURE, TOKENIZER).state_dict())
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.checkpoints.small_project import write_project
    from tests.checkpoints.test_training import run

    root = tmp_path_factory.mktemp("project")
    write_project(root)
    done = run(root, "base_model")
    assert done.returncode == 0, done.stderr
    return root


def test_made_from_scratch_it_opens_and_is_described(project: Path):
    import json

    from assets.agent.model import load_model

    model, processor = load_model(project / "models/base")
    metrics = json.loads((project / "models/base/metrics.json").read_text())
    assert metrics["parameters"] == model.num_parameters()
    assert metrics["vocabulary"] == len(processor.tokenizer) == model.config.text_config.vocab_size
    assert 0 <= metrics["words_read_grounding"] <= 1
    curves = (project / "models/base/curves.csv").read_text().splitlines()
    assert curves[0].split(",")[0] == "step"
    assert {"what", "where", "centre", "words_read_grounding", "words_read_captcha"} <= set(curves[0].split(","))
    assert (project / "models/base/pictures/curves.png").is_file()
    assert not any("heads" in name for name in model.state_dict())


def test_a_named_folder_is_taken_as_it_is(project: Path, tmp_path: Path):
    import shutil

    import yaml

    from tests.checkpoints.test_training import digest, run

    root = tmp_path / "named"
    shutil.copytree(project, root, symlinks=True, ignore=shutil.ignore_patterns(".hesper"))
    given = root / "given"
    (root / "models/base").rename(given)
    for extra in ("metrics.json", "curves.csv"):
        (given / extra).unlink()
    params = yaml.safe_load((root / "params.yaml").read_text())
    params["base_model"] = {"source": str(given)}
    (root / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    done = run(root, "base_model")
    assert done.returncode == 0, done.stderr
    taken = digest(root / "models/base")
    assert {name: data for name, data in taken.items() if name != "metrics.json"} == digest(given)


def test_a_source_that_is_nowhere_is_named(project: Path, tmp_path: Path):
    import shutil

    import yaml

    from tests.checkpoints.test_training import run

    root = tmp_path / "nowhere"
    shutil.copytree(project, root, symlinks=True, ignore=shutil.ignore_patterns(".hesper"))
    params = yaml.safe_load((root / "params.yaml").read_text())
    params["base_model"] = {"source": "no/such/model/anywhere"}
    (root / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    done = run(root, "base_model", HF_HUB_OFFLINE="1")
    assert done.returncode == 2
    assert "no/such/model/anywhere" in done.stderr


def test_heads_must_share_the_hidden_size():
    with pytest.raises(ValueError, match="hidden must be a multiple of heads"):
        Architecture.model_validate({**ARCHITECTURE.model_dump(), "heads": ARCHITECTURE.hidden + 1})
