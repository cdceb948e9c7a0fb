"""What PyInstaller takes of torch: the modules its import graph reaches, and the libraries. Replaces the usual hook,
which takes every module and its source text, too.

A few modules are read as text while torch is imported: settings with their comments, and functions that stand for
several. Those keep their source; refine.py puts the compiled form where Python looks for it beside a source.
"""

import re
from pathlib import Path

from PyInstaller.utils.hooks import collect_data_files, collect_dynamic_libs, get_package_paths

_READ_AS_TEXT = re.compile(rb"^install_config_module\(|\b_overload(?:_method)?\b", re.MULTILINE)
_BELOW, _FOLDER = get_package_paths("torch")

module_collection_mode = "pyc"
warn_on_missing_hiddenimports = False
binaries = collect_dynamic_libs("torch", search_patterns=["*.dll", "*.dylib", "lib*.so", "*.so.*"])
datas = collect_data_files("torch", includes=["bin/torch_shm_manager"])  # torch looks whether it is there
datas += [
    (str(file), str(file.parent.relative_to(_BELOW)))
    for file in sorted(Path(_FOLDER).rglob("*.py"))
    if _READ_AS_TEXT.search(file.read_bytes())
]
bindepend_symlink_suppression = ["**/torch/lib/*.so*"]
