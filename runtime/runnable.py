"""Says whether this version can write text with a model or make vectors with it, and if not, why.

Reads no file.
"""

from __future__ import annotations

from runtime.gguf_architectures import (
    DIFFUSION_ARCHITECTURES,
    EMBEDDING_ARCHITECTURES,
    HELPER_ARCHITECTURES,
    KNOWN_ARCHITECTURES,
    TRANSLATION_ARCHITECTURES,
)
from runtime.gguf_header import GgufHeader, UnsupportedModel, clean_name
from runtime.text import N_, _

_RANK = 4  # LLAMA_POOLING_TYPE_RANK
_NO_TOKENIZER = ("none", "no_vocab")  # llama.cpp loads such a model, and ends the process when it gets a text
_KINDS = {
    "adapter": N_("It is an adapter: it changes another model and cannot run by itself."),
    "mmproj": N_("It is the part of another model that sees or hears, and cannot run by itself."),
    "imatrix": N_("It holds measurements for quantizing, not a model."),
}
_ARCHITECTURES = (
    (HELPER_ARCHITECTURES, N_("Its architecture “{architecture}” is a helper of other models, or one for sound.")),
    (EMBEDDING_ARCHITECTURES, N_("It makes vectors out of texts (“{architecture}”) and writes none.")),
    (DIFFUSION_ARCHITECTURES, N_("It writes by diffusion (“{architecture}”), which this version does not do.")),
)


def why_not(header: GgufHeader) -> str:
    """Returns the reason, a sentence, why a sound model cannot write text; "" where it can."""
    return _why_no_family(header) or _why_no_writer(header) or _why_no_contents(header)


def why_no_vectors(header: GgufHeader) -> str:
    """Returns the reason, a sentence, why a sound model cannot make vectors out of texts; "" where it can."""
    return _why_no_family(header) or _why_no_reader(header) or _why_no_contents(header)


def _why_no_family(header: GgufHeader) -> str:
    if header.kind in _KINDS:
        return _(_KINDS[header.kind])
    if header.architecture not in KNOWN_ARCHITECTURES:
        architecture = clean_name(header.architecture)
        return _("Its architecture “{architecture}” is unknown to this version.").format(architecture=architecture)
    return ""


def _why_no_writer(header: GgufHeader) -> str:
    architecture = clean_name(header.architecture)
    for group, sentence in _ARCHITECTURES:
        if header.architecture in group:
            return _(sentence).format(architecture=architecture)
    if header.number("pooling_type"):  # a family that writes, trained anew for vectors or for ranking
        return _("It makes vectors out of texts (“{architecture}”) and writes none.").format(architecture=architecture)
    return ""


def _why_no_reader(header: GgufHeader) -> str:
    architecture = clean_name(header.architecture)
    if header.number("pooling_type") == _RANK:
        return _("It ranks texts (“{architecture}”) and makes no vectors.").format(architecture=architecture)
    if header.architecture in HELPER_ARCHITECTURES | TRANSLATION_ARCHITECTURES | DIFFUSION_ARCHITECTURES:
        return _("This version makes no vectors with models of its kind (“{architecture}”).").format(
            architecture=architecture)  # fmt: skip
    return ""


def why_no_vocabulary(header: GgufHeader) -> str:
    """Returns the reason, a sentence, why a sound file has no vocabulary to read; "" where it has one."""
    return "" if header.n_vocab and header.tokenizer_model not in _NO_TOKENIZER else _("It has no vocabulary.")


def _why_no_contents(header: GgufHeader) -> str:
    if not header.tensors:
        return _("It holds a vocabulary only, no weights.")
    encoder, decoder = header.number("block_count"), header.number("decoder_block_count")
    if decoder > encoder:
        return _("Its decoder has {decoder} layers and its encoder only {encoder}, which llama.cpp cannot run.").format(
            decoder=decoder, encoder=encoder)  # fmt: skip
    return why_no_vocabulary(header)


def require_runnable(header: GgufHeader) -> None:
    """Raises `UnsupportedModel` where `why_not` has a reason."""
    reason = why_not(header)
    if reason:
        embeds = reason == _why_no_writer(header) and not why_no_vectors(header)
        hint = _("“quern embed” makes vectors with it. To write text, choose another model.") if embeds else ""
        raise UnsupportedModel(header.path, reason, hint)


def turns_texts(header: GgufHeader) -> bool:
    """Whether a model turns a source text into a target, and so holds no conversation."""
    return header.architecture in TRANSLATION_ARCHITECTURES


def require_vectors(header: GgufHeader) -> None:
    """Raises `UnsupportedModel` where `why_no_vectors` has a reason."""
    reason = why_no_vectors(header)
    if reason:
        hint = _("Choose another model: “quern embed” takes embedding models and those that write text.")
        raise UnsupportedModel(header.path, reason, hint)
