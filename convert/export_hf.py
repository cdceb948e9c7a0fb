"""Plans and writes a Hugging Face folder: weights, settings, tokenizer, chat templates.

Of a GGUF file all is made anew; of another folder (packed, or with adapters to merge) only the weights.

Everything that can be refused is refused before a byte is written. Knows the tables of families and no engine but for
the proof of the tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convert.gguf_file import TensorEntry
from convert.options import ConvertOptions
from convert.packing import packed
from convert.planning import require_model
from convert.recipes import FLOATS, Choice, TensorSpec
from convert.safe_folder import SafeFolder
from convert.safetensors_layout import INDEX, MAX_SHARD, Shard, index_of, shards_of
from convert.sentencepiece_file import packed_model
from convert.tensors import Product, Stored, products_for
from convert.tokenizer_back import GgufVocabulary, read_vocabulary, sentencepiece_of, tokenizer_from
from convert.vocabulary_proof import proven_back
from convert.writing import ConversionStopped, WriteProgress
from runtime.architectures.base import Architecture
from runtime.architectures.binding import bind
from runtime.architectures.reading import identify, to_hf
from runtime.checkpoint import Checkpoint
from runtime.config import ModelConfig
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.gguf_header import GgufHeader, read_header
from runtime.llama.tokenizer import GgufTokenizer
from runtime.packed import PLACES
from runtime.text import _
from runtime.tokenizer_files import read_templates

_POOLINGS = {1: "mean_tokens", 2: "cls_token", 3: "lasttoken"}  # enum llama_pooling_type
_COUNTS = ("i", "u", "bool")  # what types of whole numbers begin with: tables that hold no weights
_KEPT = (
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "tokenizer.model", "spiece.model", "vocab.json", "merges.txt", "vocab.txt",
    "chat_template.jinja", "chat_template.json", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json",
)  # fmt: skip
WRITTEN = (  # patterns of all names that a folder written here may hold
    "config.json", *_KEPT, INDEX, "model.safetensors", "model-?????-of-?????.safetensors",
    "additional_chat_templates/*.jinja",
)  # fmt: skip
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


class NotForFolders(UserError):
    """A type that folders of Hugging Face do not hold."""

    code = "not_for_folders"

    def __init__(self, kind: str) -> None:
        super().__init__(
            _("A Hugging Face folder cannot hold {type}.").format(type=kind),
            _("Its weights are F32, F16 or BF16."),
            _("Choose one of these types, or give the result a name that ends in .gguf."),
        )


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """A folder before it is written. `choices` and `products` belong together, in the order of the shards."""

    texts: Mapping[str, bytes]
    shards: tuple[Shard, ...]
    choices: tuple[Choice, ...]
    products: tuple[Product, ...]
    notes: tuple[str, ...]
    architecture: str
    tokenizer: str
    chat_template: bool

    @property
    def files(self) -> list[str]:
        """The names of all files."""
        return [*self.texts, *(shard.name for shard in self.shards)]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self.texts.values())) + sum(shard.size for shard in self.shards)


def plan_folder(checkpoint: Checkpoint, options: ConvertOptions) -> FolderPlan:
    """Returns the plan.

    Raises `NotForFolders`, `NoTokenizerBack`, `TokenizerDiffers`, what `identify` and `bind` raise.
    """
    if options.recipe not in FLOATS:
        raise NotForFolders(options.recipe)
    return (_of_gguf if checkpoint.kind == "gguf" else _of_folder)(checkpoint, options)


def _of_folder(checkpoint: Checkpoint, options: ConvertOptions) -> FolderPlan:
    infos = [checkpoint.info(name) for name in checkpoint.names]
    products = [
        Stored(checkpoint, info.name, TensorSpec(info.name, info.shape)) for info in infos
        if not info.dtype.startswith(_COUNTS)
    ]  # fmt: skip
    folder, said = checkpoint.path, dict(checkpoint.config)
    said = _without_packing(said)
    if isinstance(said.get("text_config"), Mapping):  # of a model that also sees or hears
        said["text_config"] = _without_packing(said["text_config"])
    texts = {"config.json": _json(said | {"dtype": _DTYPES[options.recipe]})}
    texts |= {name: (folder / name).read_bytes() for name in _KEPT if (folder / name).is_file()}
    texts |= {path.relative_to(folder).as_posix(): path.read_bytes()
              for path in sorted(folder.glob("additional_chat_templates/*.jinja"))}  # fmt: skip
    templates = bool(read_templates(folder))
    return _planned(texts, products, options, checkpoint.notes, str(said.get("model_type") or ""), "", templates)


def _without_packing(said: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if key not in (*PLACES, "torch_dtype")}


def _of_gguf(checkpoint: Checkpoint, options: ConvertOptions) -> FolderPlan:
    header = read_header(checkpoint.path)
    require_model(header)
    architecture, stated = identify(checkpoint)
    binding = bind(architecture, stated, checkpoint)
    vocabulary = read_vocabulary(header)
    tokenizer = tokenizer_from(vocabulary)
    notes = proven_back(checkpoint.path, vocabulary, tokenizer)
    if header.quantization.upper() not in FLOATS:
        words = _("The source is quantized ({type}): the folder holds the numbers that are left of the original's.")
        notes.append(words.format(type=header.quantization))
    products = products_for(checkpoint, architecture, binding, "folder")
    texts = {name: _json(said) for name, said in _settings(
        header, vocabulary, architecture, binding.config, options.recipe).items()}  # fmt: skip
    texts |= _sentence_files(header)
    texts["tokenizer.json"] = tokenizer.to_str().encode()
    pieces = sentencepiece_of(vocabulary)
    if pieces is not None:
        texts["tokenizer.model"] = packed_model(pieces)
    return _planned(
        texts, products, options, notes, architecture.name, f"{vocabulary.model} {vocabulary.pre}".strip(),
        bool(header.chat_templates),
    )  # fmt: skip


def _planned(
    texts: dict[str, bytes], products: Sequence[Product], options: ConvertOptions, notes: Iterable[str],
    architecture: str, tokenizer: str, chat_template: bool,
) -> FolderPlan:  # fmt: skip
    choices = [Choice(product.spec, options.recipe) for product in products]
    entries = [TensorEntry(product.spec.name, product.spec.shape, options.recipe) for product in products]
    shards = shards_of(entries, limit=options.split_max_size or MAX_SHARD)
    if len(shards) > 1:
        texts = texts | {INDEX: _json(index_of(shards))}
    return FolderPlan(
        texts, tuple(shards), tuple(choices), tuple(products), tuple(notes), architecture, tokenizer, chat_template
    )


def write_folder(plan: FolderPlan, target: Path, stop: StopFlag, *, threads: int) -> Iterator[WriteProgress]:
    """Writes the folder beside its target and puts it there when it is whole.

    Raises `ConversionStopped`, `NotNumbers`, `WrongNumbers` and `NotWritten`; then the target is as it was.
    """
    done, waiting = 0, iter(zip(plan.choices, plan.products, strict=True))
    with SafeFolder(target) as folder:
        for name, text in plan.texts.items():
            folder.begin(name)
            folder.write(text)
            done += len(text)
        for shard in plan.shards:
            folder.begin(shard.name)
            folder.write(shard.header)
            done += len(shard.header)
            for _entry in shard.entries:
                choice, product = next(waiting)
                for piece in packed(choice, product, importance=None, threads=threads):
                    if stop.is_set():
                        raise ConversionStopped
                    folder.write(piece)
                    done += piece.nbytes
                    yield WriteProgress(done=done, total=plan.size, tensor=choice.tensor.name)
                product.release()


def _json(said: Mapping[str, Any]) -> bytes:
    return (json.dumps(said, indent=2, ensure_ascii=False) + "\n").encode()


# --- settings --------------------------------------------------------------------------------------------------------


def _settings(
    header: GgufHeader, vocabulary: GgufVocabulary, architecture: Architecture, config: ModelConfig, recipe: str
) -> dict[str, dict[str, Any]]:
    named = vocabulary.named()
    # None, too, is said: a family's defaults may lie outside of a small vocabulary
    ids = {f"{name}_id": vocabulary.tokens.index(named[name]) if name in named else None
           for name in ("bos_token", "eos_token", "pad_token")}  # fmt: skip
    ends = _ends(header.path)
    general = {"_name_or_path": header.name, "dtype": _DTYPES[recipe], "torch_dtype": _DTYPES[recipe]}
    return {
        "config.json": {**to_hf(architecture, config), **ids, **general},
        "generation_config.json": {**ids, **({"eos_token_id": ends} if ends else {}), **_suppressed(vocabulary)},
        "tokenizer_config.json": _tokenizer_config(header, vocabulary, config),
        "special_tokens_map.json": named,
    }


def _sentence_files(header: GgufHeader) -> dict[str, bytes]:
    """Returns how the vectors of a text's tokens become one, as sentence-transformers has it."""
    mode = _POOLINGS.get(header.number("pooling_type"))
    if mode is None:
        return {}
    start = "sentence_transformers.models."
    modules = [{"idx": 0, "name": "0", "path": "", "type": f"{start}Transformer"},
               {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{start}Pooling"}]  # fmt: skip
    pooling = {"word_embedding_dimension": header.number("embedding_length"), f"pooling_mode_{mode}": True}
    listed = (json.dumps(modules, indent=2) + "\n").encode()
    return {"modules.json": listed, "1_Pooling/config.json": _json(pooling)}


def _ends(path: Path) -> list[int]:
    """Returns every token that ends an answer in llama.cpp, without those that are for code."""
    with GgufTokenizer(path) as tokenizer:
        special = tokenizer.special
        code = {special.fim_pad, special.fim_repo, special.fim_separator}
        first = [special.eos] if special.eos is not None else []
        others = [id for id in range(tokenizer.size) if tokenizer.ends_answer(id) and id not in code]
        return list(dict.fromkeys([*first, *others]))


def _suppressed(vocabulary: GgufVocabulary) -> dict[str, Any]:
    said = vocabulary.keys.get("suppress_tokens")
    return {"suppress_tokens": list(said)} if isinstance(said, tuple) and said else {}


def _tokenizer_config(header: GgufHeader, vocabulary: GgufVocabulary, config: ModelConfig) -> dict[str, Any]:
    bert = vocabulary.model == "bert"
    said: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast", **vocabulary.named(), "clean_up_tokenization_spaces": False,
        "model_max_length": config.context_length,
    }  # fmt: skip
    if not bert:
        said["add_bos_token"] = vocabulary.adds_bos
        said["add_eos_token"] = vocabulary.adds_eos
    templates = header.chat_templates
    if set(templates) == {"default"}:
        said["chat_template"] = templates["default"]
    elif templates:
        said["chat_template"] = [{"name": name, "template": text} for name, text in templates.items()]
    return said
