"""The fan is exact: loss and every gradient equal the plain computation, which repeats the prefix for each suffix."""

from __future__ import annotations

import io
import random
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.agent import fan, generation
from assets.agent.processor import Patches, Processor, make_image_processor
from assets.agent.prompts import Prompt
from assets.agent.tokenizer import IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START, make_tokenizer

FULL = ["full_attention", "full_attention"]
HYBRID = ["linear_attention", "full_attention", "linear_attention"]


def small_model(processor: Processor, layers: list[str], seed: int = 0):
    import torch
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    ids = dict(
        image_token_id=IMAGE_PAD,
        video_token_id=VIDEO_PAD,
        vision_start_token_id=VISION_START,
        vision_end_token_id=VISION_END,
    )
    config = Qwen3_5Config(
        text_config=dict(
            vocab_size=len(processor.tokenizer),
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=len(layers),
            layer_types=layers,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            linear_num_key_heads=1,
            linear_num_value_heads=2,
            linear_key_head_dim=16,
            linear_value_head_dim=16,
            initializer_range=0.1,
            tie_word_embeddings=True,
            rope_parameters=dict(
                rope_type="default",
                rope_theta=1000.0,
                partial_rotary_factor=1.0,
                mrope_section=[4, 2, 2],
                mrope_interleaved=True,
            ),
        ),
        vision_config=dict(
            depth=2,
            hidden_size=32,
            intermediate_size=48,
            num_heads=2,
            out_hidden_size=32,
            num_position_embeddings=64,
            initializer_range=0.1,
        ),
        tie_word_embeddings=True,
        **{name: processor.tokenizer.convert_tokens_to_ids(token) for name, token in ids.items()},
    )
    model = Qwen3_5ForConditionalGeneration(config)
    for name, parameter in model.named_parameters():
        if name.endswith("A_log"):  # a slow decay, so that the recurrent state reaches from prefix to suffix
            parameter.data.fill_(-1.0)
    return model


@pytest.fixture(scope="module")
def processor() -> Processor:
    return Processor(make_tokenizer(["Save", "Open", "Click", "screen"]), make_image_processor())


def picture(seed: int, size: tuple[int, int] = (96, 64)) -> bytes:
    from PIL import Image

    noise = random.Random(seed).randbytes(size[0] * size[1] * 3)
    buffer = io.BytesIO()
    Image.frombytes("RGB", size, noise).save(buffer, "PNG")
    return buffer.getvalue()


def prefix_ids(processor: Processor, images: int, tokens: int) -> list[int]:
    text = "screen" + (VISION_START + IMAGE_PAD * tokens + VISION_END) * images
    return processor.tokenizer.encode(text, add_special_tokens=False)


def ragged(processor: Processor, prefixes: int, count: int, seed: int) -> list[tuple[int, list[int], list[int]]]:
    rng = random.Random(seed)
    special = set(processor.tokenizer.all_special_ids)
    plain = [index for index in range(len(processor.tokenizer)) if index not in special]
    return [
        (
            rng.randrange(prefixes),
            rng.choices(plain, k=rng.randint(1, 6)),
            rng.choices(plain, k=rng.randint(1, 9)),
        )
        for _ in range(count)
    ]


def plain_losses(model, processor: Processor, prefixes, suffixes):
    """The stock forward pass, one suffix at a time, with the stock image processor's pixels."""
    import torch

    losses = []
    for owner, prompt, answer in suffixes:
        ids, images = prefixes[owner]
        row = torch.tensor([[*ids, *prompt, *answer]])
        stock = processor.images([image for image in images], return_tensors="pt")
        logits = model(
            input_ids=row,
            mm_token_type_ids=(row == model.config.image_token_id).int(),
            pixel_values=stock["pixel_values"],
            image_grid_thw=stock["image_grid_thw"],
            use_cache=False,
        ).logits
        scores = logits[0, -len(answer) - 1 : -1].log_softmax(-1)
        losses.append(-scores.gather(-1, torch.tensor(answer)[:, None])[:, 0])
    return torch.cat(losses)


@pytest.mark.parametrize("layers", [FULL, HYBRID], ids=["full", "hybrid"])
@pytest.mark.parametrize("images", [1, 2])
def test_loss_and_every_gradient_equal_the_plain_computation(processor: Processor, layers: list[str], images: int):
    import torch
    from PIL import Image

    model = small_model(processor, layers)
    pictures = [[picture(10 * row + column) for column in range(images)] for row in range(3)]
    patches: list[list[Patches]] = [[processor.patches(image) for image in shown] for shown in pictures]
    ids = prefix_ids(processor, images, 6)
    suffixes = ragged(processor, 3, 7, seed=1)

    opened = [[Image.open(io.BytesIO(image)) for image in shown] for shown in pictures]
    plain = plain_losses(model, processor, [(ids, shown) for shown in opened], suffixes)
    weights = torch.linspace(0.5, 1.5, len(plain))
    plain_loss = (plain * weights).sum() / len(plain)
    plain_loss.backward()
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()

    batch = fan.collate(processor, [(ids, shown) for shown in patches], suffixes)
    output = fan.forward(model, batch)
    scores = fan.log_probabilities(model, output.answers)
    fanned = -scores.gather(-1, batch.targets()[:, None])[:, 0]
    loss = (fanned * weights).sum() / len(fanned)
    loss.backward()

    assert abs(loss.item() - plain_loss.item()) < 1e-5 * abs(plain_loss.item())
    for name, parameter in model.named_parameters():
        difference = (parameter.grad - expected[name]).norm() / expected[name].norm().clamp_min(1e-8)
        assert difference < 1e-5, f"{name}: {difference:.1e}"


def test_vision_tower_equals_the_stock_tower(processor: Processor):
    import torch
    from PIL import Image

    model = small_model(processor, FULL)
    images = [picture(1), picture(2)]
    stock = processor.images([Image.open(io.BytesIO(image)) for image in images], return_tensors="pt")
    expected = model.model.visual(stock["pixel_values"], grid_thw=stock["image_grid_thw"]).pooler_output
    shown = [processor.patches(image) for image in images]
    ours = fan.encode_images(model, fan.stack_images(processor, shown))
    torch.testing.assert_close(ours.flatten(0, 1), expected, rtol=1e-4, atol=1e-5)


def test_order_of_suffixes_changes_nothing(processor: Processor):
    import torch

    model = small_model(processor, HYBRID)
    prefixes = [(prefix_ids(processor, 1, 6), [processor.patches(picture(seed))]) for seed in range(2)]
    suffixes = ragged(processor, 2, 6, seed=3)

    def by_suffix(order):
        batch = fan.collate(processor, prefixes, [suffixes[index] for index in order])
        scores = fan.log_probabilities(model, fan.forward(model, batch).answers)
        values = scores.gather(-1, batch.targets()[:, None])[:, 0].split([len(suffixes[index][2]) for index in order])
        return {index: value for index, value in zip(order, values, strict=True)}

    straight, turned = by_suffix(range(6)), by_suffix([5, 3, 1, 0, 4, 2])
    for index, value in straight.items():
        torch.testing.assert_close(turned[index], value, rtol=1e-5, atol=1e-6)


@given(st.lists(st.integers(1, 400)))
def test_groups_of_like_length_hold_everything_once_and_waste_little(lengths: list[int]):
    groups = fan.like_lengths(lengths)
    assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
    spans = [(min(lengths[place] for place in group), max(lengths[place] for place in group)) for group in groups]
    assert all(longest <= fan.SPREAD * shortest for shortest, longest in spans)
    assert all(before[1] < after[0] for before, after in pairwise(spans))


@given(st.lists(st.integers(1, 400)), st.integers(1, 8))
def test_groups_of_like_length_are_cut_where_they_are_too_many(lengths: list[int], most: int):
    cut = fan.like_lengths(lengths, most)
    assert all(0 < len(group) <= most for group in cut)
    whole = fan.like_lengths(lengths)
    assert [place for group in cut for place in group] == [place for group in whole for place in group]
    assert len(cut) == sum(-(-len(group) // most) for group in whole)


@given(st.lists(st.integers(1, 300)), st.integers(1, 8))
def test_all_questions_run_once_and_never_too_many_together(lengths: list[int], limit: int):
    found = generation.runs(lengths, limit)
    assert sorted(place for group in found for place in group) == list(range(len(lengths)))
    assert all(0 < len(group) <= limit for group in found)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=7))
def test_questions_run_together_so_that_sampling_takes_least_time(lengths: list[int]):
    """Against every way of cutting the sorted questions."""

    def time(groups: list[list[int]]) -> int:
        steps = [max(group) - min(group) + generation.ANSWER_STEPS for group in groups]
        return sum(count * (generation.STEP_ROWS + len(group)) for count, group in zip(steps, groups, strict=True))

    found = [[lengths[place] for place in group] for group in generation.runs(lengths, 8)]
    ordered = sorted(lengths)
    for size in range(len(ordered)):
        for cuts in combinations(range(1, len(ordered)), size):
            ends = [0, *cuts, len(ordered)]
            assert time(found) <= time([ordered[start:end] for start, end in pairwise(ends)])


def test_prefixes_of_two_lengths_are_refused(processor: Processor):
    shown = [processor.patches(picture(0))]
    ids = prefix_ids(processor, 1, 6)
    with pytest.raises(ValueError, match="share their length"):
        fan.collate(processor, [(ids, shown), ([*ids, 20], shown)], [(0, [21], [22])])


@pytest.mark.parametrize("layers", [FULL, HYBRID], ids=["full", "hybrid"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_sampled_log_probabilities_equal_recomputed_ones(processor: Processor, layers: list[str], temperature: float):
    import torch

    model = small_model(processor, layers)
    prefix = tuple(prefix_ids(processor, 1, 6))
    questions = [(picture(index % 2), Prompt(prefix, tuple(range(20, 22 + index)))) for index in range(4)]
    drawn = generation.sample(
        model,
        processor,
        questions,
        samples=3,
        temperature=temperature,
        max_new_tokens=7,
        generator=torch.Generator().manual_seed(5),
    )
    shown = [(list(prefix), [processor.patches(picture(index))]) for index in range(2)]
    suffixes = [
        (index % 2, questions[index][1].suffix, answer.ids) for index, answers in enumerate(drawn) for answer in answers
    ]
    batch = fan.collate(processor, shown, suffixes)
    scores = fan.log_probabilities(model, fan.forward(model, batch).answers)
    again = scores.gather(-1, batch.targets()[:, None])[:, 0]
    kept = torch.tensor([value for answers in drawn for answer in answers for value in answer.log_probs])
    torch.testing.assert_close(again, kept, rtol=1e-4, atol=1e-4)
    if temperature == 0:
        assert torch.equal(scores.argmax(-1), batch.targets())


def test_greedy_answers_equal_the_stock_generation(processor: Processor):
    import torch
    from PIL import Image

    model = small_model(processor, HYBRID).eval()
    prompt = Prompt(tuple(prefix_ids(processor, 1, 6)), (20, 21, 22))
    ours = generation.sample(model, processor, [(picture(0), prompt)], max_new_tokens=6)[0][0]
    stock = processor.images([Image.open(io.BytesIO(picture(0)))], return_tensors="pt")
    row = torch.tensor([[*prompt.prefix, *prompt.suffix]])
    theirs = model.generate(
        input_ids=row,
        mm_token_type_ids=(row == model.config.image_token_id).int(),
        pixel_values=stock["pixel_values"],
        image_grid_thw=stock["image_grid_thw"],
        max_new_tokens=6,
        do_sample=False,
        eos_token_id=processor.tokenizer.eos_token_id,
        pad_token_id=processor.tokenizer.pad_token_id,
    )
    assert list(ours.ids) == theirs[0, row.shape[1] :].tolist()


def test_answers_end_at_the_end_of_turn_and_at_the_length(processor: Processor):
    import torch

    model = small_model(processor, FULL)
    prompt = Prompt(tuple(prefix_ids(processor, 1, 6)), (20, 21))
    answers = generation.sample(
        model,
        processor,
        [(picture(0), prompt)],
        samples=200,
        temperature=3.0,
        max_new_tokens=40,
        generator=torch.Generator().manual_seed(0),
    )[0]
    end = processor.tokenizer.eos_token_id
    assert any(answer.ended for answer in answers)
    assert any(not answer.ended for answer in answers)
    for answer in answers:
        assert len(answer.ids) == len(answer.log_probs) <= 40
        assert end not in answer.ids[:-1]
        assert answer.ended == (answer.ids[-1] == end)
        assert answer.ended or len(answer.ids) == 40
