"""The tensors of a GGUF file or of a set of split files, unpacked by ggml. Knows no model."""

from __future__ import annotations

from runtime import ggml
from runtime.gguf_header import GgufHeader
from runtime.gguf_header import TensorInfo as GgufTensor
from runtime.mapped_file import MappedFile
from runtime.model_errors import UnsupportedModel, clean_name
from runtime.tensors import F32, Bytes, TensorInfo, TensorSource
from runtime.text import _

_ALIGN = 8  # of the widest number in any block


class GgufTensors(TensorSource):
    """Shapes are row-major here, the reverse of GGUF's order. `threads` is how many unpack one tensor together."""

    def __init__(self, header: GgufHeader, *, threads: int = 1) -> None:
        """Raises `ModelUnreadable`, and `UnsupportedModel` for a type that the installed llama.cpp cannot unpack."""
        self._header = header
        self._threads = threads
        self._tensors = {tensor.name: tensor for tensor in header.tensors}
        self.infos = {tensor.name: _info(tensor) for tensor in header.tensors}
        for tensor in header.tensors:
            _check_type(header, tensor)
        self._files = [MappedFile(path) for path in header.parts]

    def raw(self, name: str) -> Bytes:
        tensor = self._tensors[name]
        return self._files[tensor.part].piece(self._start(tensor), tensor.n_bytes, align=_ALIGN)

    def decode(self, raw: Bytes, dtype: str) -> F32:
        return ggml.dequantize(raw, dtype, threads=self._threads)

    def release(self, name: str) -> None:
        tensor = self._tensors[name]
        self._files[tensor.part].release(self._start(tensor), tensor.n_bytes)

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _start(self, tensor: GgufTensor) -> int:
        return self._header.data_offsets[tensor.part] + tensor.offset


def _info(tensor: GgufTensor) -> TensorInfo:
    return TensorInfo(tensor.name, tuple(reversed(tensor.shape)), tensor.type.lower())


def _check_type(header: GgufHeader, tensor: GgufTensor) -> None:
    if not ggml.can_dequantize(tensor.type):
        raise UnsupportedModel(
            header.path,
            _("Tensor “{name}” has the type {type}, which the installed llama.cpp cannot unpack.").format(
                name=clean_name(tensor.name), type=tensor.type
            ),
        )
