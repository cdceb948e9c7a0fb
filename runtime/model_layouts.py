"""How other programs lay out their models in a folder, each recognised by its shape wherever it lies.

A layout turns a listing into listings that say which files are models and what people call them. Reads small files
that name models, and no model.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.folder_reader import FolderReader, Listing, Naming
from runtime.small_files import read_json, read_text
from runtime.text import _

_REPOSITORY = "models--"
_REPOSITORY_DEPTH = 3
_OLLAMA_HOST, _OLLAMA_OWNER = "registry.ollama.ai", "library"
_OLLAMA_LAYER = "application/vnd.ollama.image."
_YAML_LINE = re.compile(r"""^([A-Za-z_]+):[ ]+(?:"([^"\n]*)"|'([^'\n]*)'|([^\s#"'][^\n]*?))[ \r]*$""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Layout:
    """One program's way. `models` may take folders from the list of those in which the search would go on."""

    fits: Callable[[Listing], bool]
    models: Callable[[Listing, list[Path], FolderReader], Iterator[Listing]]


def search(root: Path, reader: FolderReader) -> Iterator[Listing]:
    """Yields every folder from `root` down in which models may lie, as its layout tells it."""
    for listing, inner in reader.walk(root):
        yield from laid_out(listing, inner, reader)


def laid_out(listing: Listing, inner: list[Path], reader: FolderReader) -> Iterator[Listing]:
    """Yields one folder as its layout tells it, which may take from `inner`, the folders to be searched next."""
    layout = next((layout for layout in LAYOUTS if layout.fits(listing)), None)
    yield from layout.models(listing, inner, reader) if layout else (listing,)


# --- Ollama -----------------------------------------------------------------------------------------------------
# manifests/HOST/OWNER/MODEL/TAG is JSON that lists layers; the layer of the weights is the file blobs/sha256-…


def _is_ollama(listing: Listing) -> bool:
    return {"manifests", "blobs"} <= set(listing.folders)


def _ollama(listing: Listing, inner: list[Path], reader: FolderReader) -> Iterator[Listing]:
    inner[:] = [folder for folder in inner if folder.name not in ("manifests", "blobs")]
    manifests, present = listing.folder / "manifests", set(reader.read(listing.folder / "blobs").files)
    named: dict[str, Naming] = {}
    for folder, _inner in reader.walk(manifests):
        owner = folder.folder.relative_to(manifests).parts
        for tag in folder.files:
            blob, reason = _ollama_weights(folder.folder / tag)
            blob = blob if blob in present else blob.replace("-", ":", 1)  # older versions
            if blob in present:
                path = os.path.join("blobs", blob)
                named[path] = _also(named.get(path), Naming((_ollama_name(owner, tag),), reason))
    yield replace(listing, named=named)


def _also(known: Naming | None, new: Naming) -> Naming:
    """Joins two names of one file; what stands for the file alone wins over what stands for it with an adapter."""
    if known is None or (known.reason and not new.reason):
        return new
    return known if new.reason and not known.reason else Naming(known.names + new.names, known.reason)


def _ollama_weights(manifest: Path) -> tuple[str, str]:
    """Returns the file name of the weights, and why they cannot be run alone; "" where a manifest names no weights."""
    layers = read_json(manifest).get("layers")
    digests: dict[str, str] = {}
    for layer in layers if isinstance(layers, list) else ():
        kind, digest = (layer.get("mediaType"), layer.get("digest")) if isinstance(layer, dict) else (None, None)
        if isinstance(kind, str) and isinstance(digest, str):
            digests.setdefault(kind.removeprefix(_OLLAMA_LAYER), digest.replace(":", "-", 1))
    reason = _("It is a model with an adapter of Ollama's; this version runs models without adapters.")
    return digests.get("model", ""), reason if "adapter" in digests else ""


def _ollama_name(parts: tuple[str, ...], tag: str) -> str:
    """Returns the name that `ollama list` shows: without the host and the owner that are understood."""
    if parts[:1] == (_OLLAMA_HOST,):
        parts = parts[2:] if parts[1:2] == (_OLLAMA_OWNER,) else parts[1:]
    return f"{'/'.join(parts)}:{tag}"


# --- the Hugging Face cache -------------------------------------------------------------------------------------
# models--OWNER--NAME/snapshots/REVISION/… are links into blobs/. A file fetched at an older revision is only there.


def _is_repository(listing: Listing) -> bool:
    return listing.folder.name.startswith(_REPOSITORY) and "snapshots" in listing.folders


def _repository(listing: Listing, inner: list[Path], reader: FolderReader) -> Iterator[Listing]:
    """Yields the folders of a repository's snapshots, the newest first; what a newer one has, older ones lack."""
    inner.clear()
    title = listing.folder.name.rsplit("--", 1)[-1]
    taken: set[Path] = set()
    for snapshot in _newest_first(listing.folder, reader):
        here: set[Path] = set()
        for found, deeper in reader.walk(snapshot):
            below = found.folder.relative_to(snapshot)
            if len(below.parts) >= _REPOSITORY_DEPTH:
                deeper.clear()
            files = [name for name in found.files if os.path.exists(found.folder / name)]  # links into blobs
            here.update(below / name for name in files if not name.endswith(".json"))
            fresh = tuple(name for name in files if below / name not in taken)
            yield replace(found, files=fresh, title=" ".join((title, *below.parts)))
        taken |= here


def _newest_first(folder: Path, reader: FolderReader) -> list[Path]:
    snapshots = [folder / "snapshots" / name for name in reader.read(folder / "snapshots").folders]
    main = read_text(folder / "refs" / "main").strip()
    return sorted(snapshots, key=lambda path: (path.name == main, _time(path)), reverse=True)


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


# --- Jan --------------------------------------------------------------------------------------------------------
# llamacpp/models/ID/model.yml names the file, below Jan's data folder or anywhere; the file is often "model.gguf".


def _is_jan(listing: Listing) -> bool:
    return "model.yml" in listing.files


def _jan(listing: Listing, _inner: list[Path], _reader: FolderReader) -> Iterator[Listing]:
    said = _top_level(read_text(listing.folder / "model.yml"))
    name, spelled = said.get("name", ""), said.get("model_path", "")
    model = _jan_file(listing.folder, spelled)
    named = {os.fspath(model): Naming((name or listing.folder.name,))} if model else {}
    yield replace(listing, named=named)


def _jan_file(folder: Path, spelled: str) -> Path | None:
    """Returns the file that a model.yml means: a whole path, or one from one of the folders around it."""
    if not spelled.lower().endswith(".gguf"):
        return None
    around = (folder / spelled, *(parent / spelled for parent in folder.parents))
    return next((path for path in around if os.path.isfile(path)), None)


def _top_level(text: str) -> dict[str, str]:
    """Returns the plain texts of YAML's outermost level; what is nested or spans lines is of no interest here."""
    found = _YAML_LINE.findall(text)
    return {key: next(filter(None, values), "") for key, *values in found}


# --- llama.cpp's cache ------------------------------------------------------------------------------------------
# manifest=OWNER=NAME=TAG.json tells the owner and the repository that begin the names of its files.


def _is_llama_cache(listing: Listing) -> bool:
    return any(name.startswith("manifest=") for name in listing.files)


def _llama_cache(listing: Listing, _inner: list[Path], _reader: FolderReader) -> Iterator[Listing]:
    manifests = [name.split("=") for name in listing.files if name.startswith("manifest=") and name.count("=") == 3]
    prefixes = sorted({f"{owner}_{repository}_" for _word, owner, repository, _tag in manifests}, key=len)
    named = {}
    for name in listing.files:
        prefix = next((prefix for prefix in reversed(prefixes) if name.startswith(prefix)), "")
        if prefix and name.lower().endswith(".gguf"):
            named[name] = Naming((name.removeprefix(prefix).rsplit(".", 1)[0],))
    yield replace(listing, named=named)


LAYOUTS = (
    Layout(_is_ollama, _ollama),
    Layout(_is_repository, _repository),
    Layout(_is_jan, _jan),
    Layout(_is_llama_cache, _llama_cache),
)
