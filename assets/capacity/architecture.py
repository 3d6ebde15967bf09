"""Which model is planned for: its configuration, and its weights counted on torch's meta device.

The meta device has shapes and no bytes, so the real transformers class of a 27 B-parameter model is built in a second.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assets.errors import InputError, ParameterError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

FOLDER = Path(__file__).parent / "architectures"
"""Architectures that come with the package, so that planning needs neither weights nor a network."""

FILES = ("config.json", "preprocessor_config.json")
"""What of a model folder is read."""


@dataclass(frozen=True)
class Architecture:
    """A model's shape.

    Attributes:
        name: of the model.
        config: its config.json.
        images: its preprocessor_config.json.
        sources: where the numbers come from.
        published_parameters: what the Hugging Face hub counts in its weights; it may count parts that transformers
            does not load. None where the shape was read from a model folder.
    """

    name: str
    config: Mapping[str, Any]
    images: Mapping[str, Any]
    sources: tuple[str, ...]
    published_parameters: int | None = None

    def image_tokens(self, screen: tuple[int, int]) -> tuple[tuple[int, int], int]:
        """Rows and columns of patches of a screenshot of `(width, height)` pixels, and the visual tokens it becomes."""
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        patch, merge, size = self.images["patch_size"], self.images["merge_size"], self.images["size"]
        width, height = screen
        height, width = smart_resize(height, width, patch * merge, size["shortest_edge"], size["longest_edge"])
        rows, columns = height // patch, width // patch
        return (rows, columns), rows * columns // merge**2


def find_architecture(source: str) -> Architecture:
    """The shape of what `base_model.source` names: a model folder, a name that ships here, or one on the hub.

    Raises:
        ParameterError: nothing tells the shape of this model.
        InputError: the folder lacks a file, or it is no JSON.
    """
    if Path(source).is_dir():
        return _read_folder(source, Path(source))
    shipped = FOLDER / f"{source.rpartition('/')[2]}.json"
    if shipped.is_file():
        document = json.loads(shipped.read_text(encoding="utf-8"))
        return Architecture(
            document["name"],
            document["config"],
            document["preprocessor_config"],
            tuple(document["sources"]),
            document["published_parameters"],
        )
    if source == "scratch":
        raise ParameterError(
            "base_model.source is 'scratch': a model made from scratch has a shape only once it is made; "
            "name its folder, models/base, or a model on the Hugging Face hub"
        )
    return _fetch(source)


def build(config: Mapping[str, Any], dtype: torch.dtype, *, layers: tuple[str, ...] | None = None) -> PreTrainedModel:
    """The transformers class on the meta device, ready to train.

    Args:
        layers: `linear_attention` or `full_attention` for each decoder layer; default: as the configuration has them.
    """
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText
    from transformers.initialization import no_init_weights

    values = copy.deepcopy(dict(config))
    kind = values.pop("model_type", None)
    try:
        if layers is not None:
            values["text_config"] |= {"layer_types": list(layers), "num_hidden_layers": len(layers)}
        known = AutoConfig.for_model(kind, **values)
        with torch.device("meta"), no_init_weights():
            model = AutoModelForImageTextToText.from_config(known, dtype=dtype)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the configuration of a '{kind}' model can't be built: {error}") from None
    model.tie_weights()  # which initialising the weights would have done
    return model.to(dtype).train()  # type: ignore[no-any-return]


def layer_types(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The kind of each decoder layer."""
    from transformers import AutoConfig

    values = dict(config)
    kind = values.pop("model_type")
    return tuple(AutoConfig.for_model(kind, **copy.deepcopy(values)).text_config.layer_types)


def count_parameters(model: PreTrainedModel) -> dict[str, int]:
    """Trained weights by part; tied weights count once, so the parts add up to the model's total."""
    parts = {"vision tower": 0, "token embedding": 0, "gated-delta layers": 0, "full-attention layers": 0, "head": 0}
    kinds = model.config.text_config.layer_types
    seen: set[int] = set()
    for name, parameter in model.named_parameters():
        if id(parameter) in seen:
            continue
        seen.add(id(parameter))
        parts[_part(name, kinds)] += parameter.numel()
    return parts


def _part(name: str, kinds: list[str]) -> str:
    if ".visual." in name:
        return "vision tower"
    if ".embed_tokens." in name:
        return "token embedding"
    if ".layers." in name:
        index = int(name.partition(".layers.")[2].partition(".")[0])
        return "gated-delta layers" if kinds[index] == "linear_attention" else "full-attention layers"
    return "head"  # with the norm before it


def _fetch(source: str) -> Architecture:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        folders = [Path(hf_hub_download(source, file)).parent for file in FILES]
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        shipped = ", ".join(sorted(path.stem for path in FOLDER.glob("*.json")))
        raise ParameterError(
            f"base_model.source: nothing tells the shape of '{source}': it is no folder, {FOLDER.name} has {shipped}, "
            f"and the Hugging Face hub did not give it ({type(error).__name__}). Give a folder with its "
            f"{' and '.join(FILES)}"
        ) from None
    return _read_folder(source, folders[0])


def _read_folder(name: str, folder: Path) -> Architecture:
    documents = []
    for file in FILES:
        try:
            documents.append(json.loads((folder / file).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise InputError(f"{folder} has no {file}, which tells the model's shape") from None
        except ValueError as error:
            raise InputError(f"{folder / file} is not valid JSON: {error}") from None
    return Architecture(name, documents[0], documents[1], (f"{' and '.join(FILES)} of {folder}",))
