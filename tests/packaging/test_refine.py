"""From PyInstaller's folder to what is handed out."""

from __future__ import annotations

import sys
from pathlib import Path

from bundle_checks import twice
from elf_files import elf_bytes
from refine import cache_compiled, drop_broken_links, drop_unused_llama, join_copies, settle


def write(path: Path, content: bytes) -> Path:
    """Writes a file with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_a_library_under_three_names_stays_once(tmp_path: Path) -> None:
    folder = tmp_path / "_internal" / "llama_cpp" / "lib"
    for name in ("libllama.so", "libllama.so.0", "libllama.so.0.5.0"):
        write(folder / name, elf_bytes(soname="libllama.so.0"))
    drop_unused_llama(tmp_path)
    joined = join_copies(tmp_path)
    assert joined == [("_internal/llama_cpp/lib/libllama.so", "_internal/llama_cpp/lib/libllama.so.0")]
    assert sorted(path.name for path in folder.iterdir()) == ["libllama.so", "libllama.so.0"]
    assert (folder / "libllama.so").resolve() == folder / "libllama.so.0"
    assert twice(tmp_path) == []


def test_of_two_libraries_with_one_name_the_one_that_all_look_for_stays(tmp_path: Path) -> None:
    root = write(tmp_path / "_internal" / "libgomp.so.1", elf_bytes(soname="libgomp.so.1", filling=b"the system's"))
    own = write(tmp_path / "_internal/torch/lib/libgomp.so.1", elf_bytes(soname="libgomp.so.1", filling=b"torch's"))
    join_copies(tmp_path)
    assert own.is_symlink()
    assert own.resolve() == root


def test_modules_without_a_name_for_the_loader_stay_apart(tmp_path: Path) -> None:
    write(tmp_path / "_internal/one.so", elf_bytes(filling=b"1"))
    write(tmp_path / "_internal/two.so", elf_bytes(filling=b"2"))
    assert join_copies(tmp_path) == []


def test_what_llama_cpp_does_not_need_goes_with_the_links_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "_internal" / "llama_cpp" / "lib"
    for name in ("libmtmd.so", "libllama-common.so.0", "libggml-cpu-haswell.so", "libggml-base.so.0"):
        write(folder / name, name.encode())
    (tmp_path / "_internal" / "other.so").symlink_to("llama_cpp/lib/libmtmd.so")
    drop_unused_llama(tmp_path)
    drop_broken_links(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["libggml-base.so.0", "libggml-cpu-haswell.so"]
    assert not (tmp_path / "_internal" / "other.so").is_symlink()


def test_permissions_and_times_do_not_tell_who_built_it(tmp_path: Path) -> None:
    program = write(tmp_path / "quern", b"program")
    program.chmod(0o700)
    text = write(tmp_path / "_internal" / "text.txt", b"text")
    text.chmod(0o777)
    library = write(tmp_path / "_internal" / "liba.so.1", b"code")
    library.chmod(0o711)
    settle(tmp_path, 1_700_000_000)
    assert [oct(path.stat().st_mode & 0o777) for path in (program, text, library)] == ["0o755", "0o644", "0o755"]
    assert {path.stat().st_mtime for path in (program, text, library, tmp_path)} == {1_700_000_000}


def test_a_compiled_module_beside_its_text_goes_where_python_looks_first(tmp_path: Path) -> None:
    write(tmp_path / "_internal" / "torch" / "functional.py", b"text")
    write(tmp_path / "_internal" / "torch" / "functional.pyc", b"compiled")
    alone = write(tmp_path / "_internal" / "torch" / "other.pyc", b"alone")
    cache_compiled(tmp_path)
    cached = tmp_path / "_internal" / "torch" / "__pycache__" / f"functional.{sys.implementation.cache_tag}.pyc"
    assert cached.read_bytes() == b"compiled"
    assert not (tmp_path / "_internal" / "torch" / "functional.pyc").exists()
    assert alone.exists()
