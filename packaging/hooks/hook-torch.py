"""What PyInstaller takes of torch: the modules its import graph reaches, and the libraries. Replaces the usual hook,
which takes every module and its source text, too.
"""

from PyInstaller.utils.hooks import collect_dynamic_libs

module_collection_mode = "pyc"
warn_on_missing_hiddenimports = False
binaries = collect_dynamic_libs("torch", search_patterns=["*.dll", "*.dylib", "lib*.so", "*.so.*"])
bindepend_symlink_suppression = ["**/torch/lib/*.so*"]
