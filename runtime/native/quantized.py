"""Linear layers whose weights are stored in 8 or 4 bits; activations stay as they are ("weight-only").

    int8:  w ≈ code * scale              code -127…127, one scale for each output
    int4:  w ≈ (code - 8) * scale + zero   code 0…15, one scale and zero for each `group` weights of an output

Reading one token is bound by how fast weights come from memory: here a half or a quarter of bf16's bytes. For few rows
torch's packed kernels multiply as they unpack; for many (a prompt) unpacking once and multiplying in 16 bits is
quicker. Knows no family: it takes the place of any `Linear` in a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from runtime.native.large_pages import LargePages
from runtime.native.linear import Linear, Slot
from runtime.native.transformer import Transformer

Kind = Literal["int8", "int4"]
Layer = TypeVar("Layer", bound=nn.Module)

GROUP = 32
_FEW = 16  # rows up to which the packed kernels are quicker on a CPU (measured at 576 x 1536 to 4096 x 4096)
_LANES = 32  # torch's int8 kernel reads whole vectors, past the end of rows of other lengths
_BLOCK = 64  # a multiple of the outputs that torch packs together in 4 bits
_ROUND_UP = 1 + 2.0**-8  # before rounding to bf16, whose step is 2^-7: the scale never becomes smaller
_LEAST_SCALE = 2.0**-100


def quantize_int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Returns codes (N, K) in int8 and scales (N,) in bf16 of weights (N, K). |error| <= scale / 2."""
    weight = weight.float()
    scales = _scales(weight.abs().amax(1) / 127)
    codes = (weight / scales.float()[:, None]).round_().clamp_(-127, 127)
    return codes.to(torch.int8), scales


def quantize_int4(weight: Tensor, group: int = GROUP) -> tuple[Tensor, Tensor, Tensor]:
    """Returns codes (N, K) in uint8, scales and zeros (N, K / group) in bf16 of weights (N, K).

    |error| <= scale / 2, and at a group's ends the rounding of its zero, |zero| / 256, more.
    """
    parts = weight.float().reshape(len(weight), -1, group)
    low, high = parts.amin(2), parts.amax(2)
    scales = _scales((high - low) / 15)
    zeros = (low + 8 * scales.float()).to(torch.bfloat16)
    codes = ((parts - zeros.float()[..., None]) / scales.float()[..., None]).round_().add_(8).clamp_(0, 15)
    return codes.flatten(1).to(torch.uint8), scales, zeros


def _scales(exact: Tensor) -> Tensor:
    return (exact * _ROUND_UP).clamp_(min=_LEAST_SCALE).to(torch.bfloat16)


class Int8Linear(nn.Module):
    """y = x W^T + b with W (N, K) in 8 bits."""

    codes: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """Takes weights (N, K) and a bias (N,) in any float type."""
        super().__init__()
        codes, scales = quantize_int8(weight)
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (..., K) to (..., N)."""
        rows = x.reshape(-1, x.shape[-1])
        if x.device.type == "cpu" and len(rows) <= _FEW and x.shape[-1] % _LANES == 0:
            y = torch._weight_int8pack_mm(rows.to(torch.bfloat16).contiguous(), self.codes, self.scales).to(x.dtype)
        else:
            y = F.linear(rows, self.codes.to(x.dtype)) * self.scales.to(x.dtype)
        return _shaped(y, x, self.bias)

    def product(self) -> Callable[[Tensor], Tensor]:
        """Returns a function of one vector, (K) → (N), that gives what the layer gives."""
        codes, scales, bias = self.codes, self.scales, self.bias
        if not codes.is_cpu or codes.shape[1] % _LANES:
            return self

        def multiply(x: Tensor) -> Tensor:
            y = torch._weight_int8pack_mm(x.to(torch.bfloat16).unsqueeze(0), codes, scales).squeeze(0).to(x.dtype)
            return y if bias is None else y + bias

        return multiply

    def rows(self, ids: Tensor, dtype: torch.dtype) -> Tensor:
        """Returns the weights (..., K) of some outputs (...): an embedding that shares its matrix with the head."""
        return self.codes[ids].to(dtype) * self.scales[ids].to(dtype)[..., None]

    def dequantized(self) -> Tensor:
        """Returns the weights (N, K) in f32."""
        return self.codes.float() * self.scales.float()[:, None]


class Int4Linear(nn.Module):
    """y = x W^T + b with W (N, K) in 4 bits, packed as torch's CPU kernel wants it."""

    packed: Tensor
    scales_and_zeros: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None = None, *, group: int = GROUP) -> None:
        """Takes weights (N, K) and a bias (N,) in any float type. Raises `ValueError` unless `fits_int4`."""
        super().__init__()
        if not fits_int4(weight.shape, group):
            raise ValueError(f"weights {tuple(weight.shape)} cannot be packed in groups of {group}")
        codes, scales, zeros = quantize_int4(weight, group)
        self.group = group
        packed = torch._convert_weight_to_int4pack_for_cpu(codes.int().cpu(), 1)
        self.register_buffer("packed", packed.to(weight.device))
        # (K / group, N, 2)
        self.register_buffer("scales_and_zeros", torch.stack((scales.t(), zeros.t()), 2).contiguous())
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (..., K) to (..., N)."""
        rows = x.reshape(-1, x.shape[-1])
        if x.device.type == "cpu" and len(rows) <= _FEW:
            y = torch._weight_int4pack_mm_for_cpu(
                rows.to(torch.bfloat16).contiguous(), self.packed, self.group, self.scales_and_zeros
            ).to(x.dtype)
        else:
            y = F.linear(rows, self.dequantized(x.dtype))
        return _shaped(y, x, self.bias)

    def product(self) -> Callable[[Tensor], Tensor]:
        """Returns a function of one vector, (K) → (N), that gives what the layer gives."""
        packed, group, scales_and_zeros, bias = self.packed, self.group, self.scales_and_zeros, self.bias
        if not packed.is_cpu:
            return self

        def multiply(x: Tensor) -> Tensor:
            row = x.to(torch.bfloat16).unsqueeze(0)
            y = torch._weight_int4pack_mm_for_cpu(row, packed, group, scales_and_zeros).squeeze(0).to(x.dtype)
            return y if bias is None else y + bias

        return multiply

    def dequantized(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns the weights (N, K)."""
        scales, zeros = self.scales_and_zeros.to(dtype).permute(2, 1, 0)[..., None]  # (N, K/group, 1)
        codes = _unpacked(self.packed).to(dtype).sub_(8).view(len(self.packed), -1, self.group)
        return codes.mul_(scales).add_(zeros).flatten(1)


def _shaped(y: Tensor, x: Tensor, bias: Tensor | None) -> Tensor:
    y = y.view(*x.shape[:-1], y.shape[-1])
    return y if bias is None else y + bias


def _unpacked(packed: Tensor) -> Tensor:
    """Returns the codes (N, K) in uint8 of a matrix (N, K / 2) that torch packed."""
    n, half = packed.shape
    places, in_order = _places()
    size = len(places)
    blocks = packed.view(n // size, 2 * half, size // 2)  # for each column of a block, its outputs, two a byte
    codes = torch.cat((blocks & 15, blocks >> 4), 2)
    if not in_order:
        codes = codes[..., places.to(packed.device)]
    return codes.transpose(1, 2).reshape(n, 2 * half)


@cache
def _places() -> tuple[Tensor, bool]:
    """Returns where each output of a block lies among its low, then its high half bytes, and whether it is in order.

    The places are (64,) or (32,): size and order of a block differ with the processor's vector units, so they are read
    off a matrix of two columns that holds its own row numbers, and one that holds its column numbers.
    """
    outputs = torch.arange(_BLOCK, dtype=torch.int32)[:, None].expand(_BLOCK, 2)
    columns = torch.arange(2, dtype=torch.int32).expand(_BLOCK, 2)
    half = int((_packed(columns) & 15).argmax())  # bytes before the second column begins
    low, high = (_packed(digit)[:half] for digit in (outputs & 15, outputs >> 4))
    rows = torch.cat((low & 15, low >> 4)).int() + 16 * torch.cat((high & 15, high >> 4)).int()
    places = rows.argsort()
    return places, torch.equal(places, torch.arange(len(places)))


def _packed(codes: Tensor) -> Tensor:
    return torch._convert_weight_to_int4pack_for_cpu(codes.contiguous(), 1).flatten()


def fits_int4(shape: tuple[int, ...] | torch.Size, group: int = GROUP) -> bool:
    """Whether weights (N, K) can be packed in 4 bits."""
    n, k = shape
    return group in (32, 64, 128, 256) and n % _BLOCK == 0 and k % group == 0


def quantized_linear(
    weight: Tensor, bias: Tensor | None = None, *, kind: Kind, group: int = GROUP
) -> Int8Linear | Int4Linear:
    """Returns a layer for weights (N, K): in 8 bits too where `kind` is int4 and the shape does not allow it."""
    if kind == "int4" and fits_int4(weight.shape, group):
        return Int4Linear(weight, bias, group=group)
    return Int8Linear(weight, bias)


class QuantizedEmbedding(nn.Module):
    """Token ids (B, T) to vectors (B, T, C), out of the matrix of a head."""

    def __init__(self, head: Int8Linear, dtype: torch.dtype) -> None:
        super().__init__()
        self.head = head
        self.dtype = dtype

    def forward(self, ids: Tensor) -> Tensor:
        return self.head.rows(ids, self.dtype)


class Quantizer:
    """Quantizes a model's matrices while they are loaded, each as soon as all of its parts are there.

    The head stays in 8 bits, for an error there reaches the scores undamped, and so does an embedding that shares its
    matrix; an embedding of its own, norms and the experts of a mixture stay as they are.
    """

    def __init__(self, model: Transformer, kind: Kind) -> None:
        self._model = model
        self._kind = kind
        self._owners = {
            child: (owner, name)
            for owner in model.modules() for name, child in owner.named_children() if isinstance(child, Linear)
        }  # fmt: skip
        self._waiting = Counter(slot.module for slot in model.slots().values())
        self._pages = LargePages()

    def filled(self, slots: Iterable[Slot]) -> None:
        """Hears of weights that have got their values."""
        for slot in slots:
            self._waiting[slot.module] -= 1
            if not self._waiting[slot.module] and isinstance(slot.module, Linear):
                self._replace(slot.module)

    def finish(self) -> None:
        """Quantizes a matrix that embedding and head share, once everything is there."""
        model = self._model
        if model.head is None:
            table = model.embedding.weight
            model.head = head = self._placed(Int8Linear(table))
            model.embedding = QuantizedEmbedding(head, table.dtype)  # type: ignore[assignment]  # asked for rows only

    def _replace(self, child: Linear) -> None:
        owner, name = self._owners[child]
        kind: Kind = "int8" if child is self._model.head else self._kind
        setattr(owner, name, self._placed(quantized_linear(child.weight, child.bias, kind=kind)))
        del self._owners[child]

    def _placed(self, layer: Layer) -> Layer:
        self._pages.move(layer)
        return layer
