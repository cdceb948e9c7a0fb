"""Lays out models the way other programs do. Every model file is small, and different from the others by its name.

Each function takes the folder in which the program keeps its models, and returns the paths of the model files.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import raw_gguf
from raw_gguf import ARRAY, STRING, pack, with_keys

_VOCABULARY: raw_gguf.Key = ("tokenizer.ggml.tokens", ARRAY, (STRING, ["a", "b"]))


def model_bytes(name: str, *keys: raw_gguf.Key) -> bytes:
    """Returns a model that only its header makes one."""
    return pack(with_keys(_VOCABULARY, ("general.name", STRING, name), *keys))


def write_model(path: Path, *keys: raw_gguf.Key) -> Path:
    """Writes a model, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model_bytes(path.name, *keys))
    return path


def ollama(store: Path, names: dict[str, str], *, layers: dict[str, str] | None = None) -> dict[str, Path]:
    """Writes an Ollama store. `names` are "HOST/OWNER/MODEL:TAG" with the content of each model; equal contents share
    a blob. `layers` are further layers of every manifest: their kind and content.
    """
    blobs: dict[str, Path] = {}
    for name, content in names.items():
        blobs[name] = _blob(store, model_bytes(content))
        described = [_layer("model", blobs[name]), _layer("license", _blob(store, b"Do as you like."))]
        described += [_layer(kind, _blob(store, text.encode())) for kind, text in (layers or {}).items()]
        model, _colon, tag = name.rpartition(":")
        write_json(store / "manifests" / model / tag, {"schemaVersion": 2, "layers": described})
    return blobs


def _blob(store: Path, content: bytes) -> Path:
    path = store / "blobs" / f"sha256-{hashlib.sha256(content).hexdigest()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _layer(kind: str, blob: Path) -> dict[str, Any]:
    digest = blob.name.replace("-", ":")
    return {"mediaType": f"application/vnd.ollama.image.{kind}", "digest": digest, "size": blob.stat().st_size}


def hub(cache: Path, repository: str, revision: str, files: dict[str, bytes], *, main: bool = False) -> Path:
    """Writes a snapshot into a Hugging Face cache, as links to blobs, and returns its folder."""
    root = cache / ("models--" + repository.replace("/", "--"))
    snapshot = root / "snapshots" / revision
    for name, content in files.items():
        blob = root / "blobs" / hashlib.sha256(content).hexdigest()
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(blob)
    if main:
        (root / "refs").mkdir(exist_ok=True)
        (root / "refs" / "main").write_text(revision)
    return snapshot


def jan(data: Path, name: str, *, file: Path | None = None) -> Path:
    """Writes a model of Jan's below its data folder; `file` is one that was imported from elsewhere."""
    folder = data / "llamacpp" / "models" / name
    folder.mkdir(parents=True)
    path = file or write_model(folder / "model.gguf", ("general.basename", STRING, name))
    spelled = str(path) if file else path.relative_to(data).as_posix()
    (folder / "model.yml").write_text(f"embedding: false\nmodel_path: {spelled}\nname: {name}\nsize_bytes: 64\n")
    return path


def llama_cache(cache: Path, owner: str, repository: str, file: str) -> Path:
    """Writes a download of llama.cpp's, with the manifest that belongs to it."""
    path = write_model(cache / f"{owner}_{repository}_{file}")
    write_json(cache / f"manifest={owner}={repository}=latest.json", {"ggufFile": {"rfilename": file}})
    write_json(path.with_name(path.name + ".json"), {"etag": "x"})
    return path


def write_json(path: Path, content: object) -> Path:
    """Writes a JSON file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path
