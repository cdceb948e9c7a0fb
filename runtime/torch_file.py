"""Reads a PyTorch checkpoint (.bin) without running what it says: `weights_only`, and mapped. The file for its torch.

A checkpoint of this kind is a pickle, a program that builds objects. PyTorch's restricted reader builds tensors and
plain containers only, and raises for everything else. Zip archives are looked at first, so that a small file cannot
claim gigabytes.
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from runtime.errors import UserError
from runtime.model_errors import DamagedModel, ModelMissing, ModelUnreadable, clean_name
from runtime.number_types import to_f32
from runtime.places import shown_path
from runtime.tensors import F32, Bytes, TensorInfo, TensorSource
from runtime.text import _

_MAX_PICKLE = 1 << 25
_WRAPPERS = ("state_dict", "model", "module", "model_state_dict")
_NOT_LOADED = (
    pickle.UnpicklingError, RuntimeError, EOFError, ValueError, LookupError, AttributeError, TypeError, OverflowError,
)  # fmt: skip
_DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "f8_e4m3", torch.float8_e5m2: "f8_e5m2", torch.int64: "i64", torch.int32: "i32",
    torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}  # fmt: skip


class UnsafePickle(UserError):
    """A PyTorch file that holds more than tensors, or is damaged: it is not opened."""

    code = "unsafe_pickle"

    def __init__(self, path: Path, details: str) -> None:
        super().__init__(
            _("“{name}” was not opened.").format(name=shown_path(Path(path.name))),
            _("It is a Python pickle that holds more than tensors, and could run code; or it is damaged."),
            _("Use a copy of the model in the safetensors format."),
            details=details,
        )
        self.path = path


class TorchFile(TensorSource):
    """The tensors of one `.bin` file. Tensors that share memory are listed under all their names."""

    def __init__(self, path: Path) -> None:
        """Raises `ModelMissing`, `ModelUnreadable`, `DamagedModel` or `UnsafePickle`."""
        self.path = path
        self._tensors = _tensors(path, _loaded(path))
        self.infos = {name: TensorInfo(name, tuple(t.shape), _DTYPES[t.dtype]) for name, t in self._tensors.items()}

    def raw(self, name: str) -> Bytes:
        flat = self._tensors[name].detach().contiguous().reshape(-1)
        raw: Bytes = (flat if flat.dtype == torch.bool else flat.view(torch.uint8)).numpy().view(np.uint8)
        raw.flags.writeable = False
        return raw

    def decode(self, raw: Bytes, dtype: str) -> F32:
        return to_f32(raw, dtype)

    def release(self, name: str) -> None:
        """Does nothing: PyTorch owns the map, whose clean pages the system takes back by itself."""

    def close(self) -> None:
        self._tensors = {}


def _loaded(path: Path) -> Any:
    try:
        is_zip = zipfile.is_zipfile(path)
        if is_zip:
            _check_archive(path)
        with warnings.catch_warnings():  # about pickles that torch did not write
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except FileNotFoundError as error:
        raise ModelMissing(path) from error
    except OSError as error:
        raise ModelUnreadable(path, _("The system says: {error}.").format(error=error.strerror or error)) from error
    except zipfile.BadZipFile as error:
        raise DamagedModel(path, _("It is a broken archive.")) from error
    except _NOT_LOADED as error:
        raise UnsafePickle(path, str(error)) from error


def _check_archive(path: Path) -> None:
    """Raises `DamagedModel` for an archive whose contents are larger than it is, or compressed."""
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    size = path.stat().st_size
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED:
            raise DamagedModel(path, _("It is a compressed archive, which PyTorch does not write."))
        if entry.filename.endswith("data.pkl") and entry.file_size > _MAX_PICKLE:
            raise DamagedModel(path, _("Its list of tensors has {n} bytes, more than any model has.").format(
                n=f"{entry.file_size:,}"))  # fmt: skip
    if sum(entry.file_size for entry in entries) > size:
        raise DamagedModel(path, _("It claims more bytes than the file has."))


def _tensors(path: Path, loaded: Any) -> dict[str, torch.Tensor]:
    """Returns the tensors by name, also out of the wrapper in which training programs put them."""
    for wrapper in _WRAPPERS:
        if isinstance(loaded, dict) and isinstance(loaded.get(wrapper), dict):
            loaded = loaded[wrapper]
    found = loaded if isinstance(loaded, dict) else {}
    named = {name: value for name, value in found.items() if isinstance(name, str) and _is_plain(value)}
    if not named:
        raise DamagedModel(path, _("It holds no tensors with names."))
    for name, value in named.items():
        if value.nbytes > value.untyped_storage().nbytes():  # by steps of no length: a few bytes as many gigabytes
            raise DamagedModel(path, _("“{name}” claims more numbers than the file has.").format(name=clean_name(name)))
    return named


def _is_plain(value: object) -> bool:
    """Whether it is a tensor whose numbers lie in the file, one after the other or in steps."""
    return (
        isinstance(value, torch.Tensor) and value.dtype in _DTYPES and value.layout is torch.strided
        and value.device.type == "cpu"
    )  # fmt: skip
