"""The tensors of a Hugging Face folder: which files hold them, and their names as one set. Knows no architecture.

Everything in the folder was written by others. Names of files are taken from its index only where they stay inside the
folder, and nothing that a config names is imported or fetched.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime import wrapped_names
from runtime.config_files import read_object
from runtime.errors import UserError
from runtime.installation import require_torch
from runtime.model_errors import DamagedModel, clean_name
from runtime.places import shown_path
from runtime.safetensors_file import SafetensorsFile
from runtime.tensors import F32, Bytes, TensorInfo, TensorSource
from runtime.text import _, ngettext

_SHARD = re.compile(r"model-(\d{5})-of-(\d{5})\.safetensors")
_HEADS = {"lm_head.weight", "embed_out.weight", "cls.predictions.decoder.weight", "lm_head.decoder.weight"}
_COMPARED = 1 << 24  # bytes at once, where two files hold the same tensor


class NoWeights(UserError):
    """A folder without a file of weights that this program reads."""

    code = "no_weights"

    def __init__(self, folder: Path) -> None:
        super().__init__(
            _("The folder “{name}” holds no model weights.").format(name=shown_path(Path(folder.name))),
            _("Expected a file model.safetensors, or shards with model.safetensors.index.json."),
            _("Download the whole model, or choose the folder in which these files lie."),
            details=shown_path(folder),
        )


class NoConfig(UserError):
    """A folder of weights without a config.json."""

    code = "no_config"

    def __init__(self, folder: Path) -> None:
        super().__init__(
            _("The model “{name}” has no config.json.").format(name=shown_path(Path(folder.name))),
            _("Without it, nobody can tell what the weights are for."),
            _("Download config.json into the folder {folder}.").format(folder=shown_path(folder)),
        )


class AdapterNotModel(UserError):
    """A folder that holds an adapter, for which its model is needed."""

    code = "adapter_not_model"

    def __init__(self, folder: Path, base: str) -> None:
        super().__init__(
            _("“{name}” is an adapter, not a model.").format(name=shown_path(Path(folder.name))),
            _("It was made for the model {base}.").format(base=clean_name(base)) if base else "",
            _("Load its model, and give it the adapter."),
            details=shown_path(folder),
        )


class ShardMissing(UserError):
    """A file that the index names is not there."""

    code = "shard_missing"

    def __init__(self, folder: Path, missing: Mapping[str, int]) -> None:
        names = ", ".join(f"{clean_name(name)} ({count:,})" for name, count in missing.items())
        super().__init__(
            _("The model “{name}” is incomplete.").format(name=shown_path(Path(folder.name))),
            _("Missing files, with the number of their tensors: {names}.").format(names=names),
            _("Put the missing files into the folder {folder}.").format(folder=shown_path(folder)),
        )
        self.missing = dict(missing)


class FolderTensors(TensorSource):
    """The tensors of all files of a folder as one set. `notes` say what was passed over."""

    def __init__(self, files: Iterable[TensorSource], names: Mapping[str, str]) -> None:
        """`names` gives the stored names their names here."""
        self._files = tuple(files)
        self._places = {
            names.get(stored, stored): (file, stored) for file in reversed(self._files) for stored in file.infos
        }
        order = dict.fromkeys(names.get(stored, stored) for file in self._files for stored in file.infos)
        self.infos = {name: self._info(name) for name in order}

    def raw(self, name: str) -> Bytes:
        file, stored = self._places[name]
        return file.raw(stored)

    def decode(self, raw: Bytes, dtype: str) -> F32:
        return self._files[0].decode(raw, dtype)

    def release(self, name: str) -> None:
        file, stored = self._places[name]
        file.release(stored)

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _info(self, name: str) -> TensorInfo:
        file, stored = self._places[name]
        info = file.infos[stored]
        return TensorInfo(name, info.shape, info.dtype)


@dataclass
class FolderWeights:
    """The files of weights that a folder's index, or its listing, names. `index` is what the index says of tensors."""

    files: list[Path]
    index: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def open_folder(folder: Path, config: Mapping[str, Any]) -> tuple[FolderTensors, list[str]]:
    """Returns a folder's tensors, and notes about what was passed over.

    Raises `NoWeights`, `ShardMissing`, `AdapterNotModel`, `ModelUnreadable`, `DamagedModel`, `UnsupportedModel`, or for
    a `.bin` file `UnsafePickle`.
    """
    weights = find_weights(folder)
    files = [_opened(path) for path in weights.files]
    notes = weights.notes + _missing_names(folder, weights.index, files, config)
    _check_duplicates(folder, files)
    names, renamed = _unwrapped([name for file in files for name in file.infos])
    return FolderTensors(files, names), notes + renamed


def find_weights(folder: Path) -> FolderWeights:
    """Returns which files hold a folder's weights; safetensors before .bin, and an index before a single file.

    Raises `NoWeights`, `ShardMissing`, `AdapterNotModel` or `DamagedModel`.
    """
    for index, single in (("model.safetensors.index.json", "model.safetensors"),
                          ("pytorch_model.bin.index.json", "pytorch_model.bin")):  # fmt: skip
        if (folder / index).exists():
            weights = _indexed(folder, folder / index)
            if (folder / single).exists() and folder / single not in weights.files:
                note = _("{file} was passed over: the index names other files.")
                weights.notes.append(note.format(file=single))
            return weights
        if (folder / single).exists():
            return FolderWeights([folder / single])
        shards = _numbered(folder) if single.endswith(".safetensors") else []
        if shards:
            return FolderWeights(shards)
    if (folder / "adapter_config.json").exists():
        base = read_object(folder / "adapter_config.json").get("base_model_name_or_path")
        raise AdapterNotModel(folder, base if isinstance(base, str) else "")
    raise NoWeights(folder)


# --- files ------------------------------------------------------------------------------------------------------


def _indexed(folder: Path, index: Path) -> FolderWeights:
    names = read_object(index).get("weight_map")
    if not isinstance(names, dict) or not names or not all(isinstance(file, str) for file in names.values()):
        raise DamagedModel(index, _("It does not say which file holds which tensor."))
    files = dict.fromkeys(names.values())
    for file in files:
        _check_inside(index, file)
    missing = {file: list(names.values()).count(file) for file in files if not (folder / file).is_file()}
    if missing:
        raise ShardMissing(folder, missing)
    return FolderWeights([folder / file for file in files], names)


def _check_inside(index: Path, name: str) -> None:
    """Raises `DamagedModel` for a name that leaves the folder, on any system. A link inside may lead anywhere."""
    parts = name.split("/")
    ends = name.endswith((".safetensors", ".bin"))
    if not ends or re.search(r'[\\:\0<>"|?*]', name) or any(part in ("", ".", "..") for part in parts):
        raise DamagedModel(index, _("It names the file “{name}”, which is no name of a file of weights in its folder.")
                           .format(name=clean_name(name)))  # fmt: skip


def _numbered(folder: Path) -> list[Path]:
    """Returns the shards of a folder that lost its index."""
    found = {match[0]: match[2] for path in folder.iterdir() if (match := _SHARD.fullmatch(path.name))}
    if not found:
        return []
    count = next(iter(found.values()))
    names = [f"model-{part:05}-of-{count}.safetensors" for part in range(1, int(count) + 1)]
    missing = [name for name in names if name not in found]
    if missing:
        raise ShardMissing(folder, dict.fromkeys(missing, 0))
    return [folder / name for name in names]


def _opened(path: Path) -> TensorSource:
    if path.suffix == ".safetensors":
        return SafetensorsFile(path)
    require_torch(_("Reading a PyTorch file (.bin)"))
    torch_file: TensorSource = importlib.import_module("runtime.torch_file").TorchFile(path)  # imports torch
    return torch_file


# --- names ------------------------------------------------------------------------------------------------------


def _missing_names(
    folder: Path, index: Mapping[str, str], files: Iterable[TensorSource], config: Mapping[str, Any]
) -> list[str]:
    """Returns a note for a tied head that the index promises; raises `DamagedModel` for any other missing tensor."""
    held = {name for file in files for name in file.infos}
    missing = [name for name in index if name not in held]
    tied = [name for name in missing if name in _HEADS and config.get("tie_word_embeddings", True)]
    if len(missing) > len(tied):
        lost = [name for name in missing if name not in tied]
        raise DamagedModel(
            folder,
            ngettext(
                "Its index promises the tensor “{name}”, which no file holds.",
                "Its index promises {n} tensors that no file holds, the first is “{name}”.",
                len(lost),
            ).format(n=len(lost), name=clean_name(lost[0])),
        )
    note = _("The index promises “{name}”, which no file holds; the embedding, which it shares, is used.")
    return [note.format(name=name) for name in tied]


def _check_duplicates(folder: Path, files: Iterable[TensorSource]) -> None:
    """Raises `DamagedModel` where two files hold different tensors of one name."""
    first: dict[str, TensorSource] = {}
    for file in files:
        for name, info in file.infos.items():
            other = first.setdefault(name, file)
            if other is not file and (other.infos[name] != info or not _are_equal(other.raw(name), file.raw(name))):
                both = [getattr(source, "path", folder).name for source in (other, file)]
                raise DamagedModel(folder, _("{first} and {second} hold different tensors named “{name}”.").format(
                    first=both[0], second=both[1], name=clean_name(name)))  # fmt: skip


def _are_equal(first: Bytes, second: Bytes) -> bool:
    starts = range(0, first.size, _COMPARED)
    return all(bool((first[at : at + _COMPARED] == second[at : at + _COMPARED]).all()) for at in starts)


def _unwrapped(names: list[str]) -> tuple[dict[str, str], list[str]]:
    """Returns the names without what compiled, parallel and adapted models put into them, and a note."""
    clean = wrapped_names.unwrapped(names)
    changed = [name for name, short in clean.items() if name != short]
    if not changed or len(set(clean.values())) < len(clean):
        return {}, []
    note = _("The tensors' names were freed of what a training program had put into them, as in “{name}”.")
    return clean, [note.format(name=clean_name(changed[0]))]
