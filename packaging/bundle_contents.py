"""What goes into the application's folder and what stays out. Only lists and questions about names; copies nothing.

Left out is what no path of the program reaches: compilers of graphs, test suites, headers, Qt's modules for QML, and
libraries that every desktop has and that must match its drivers. Each list says why its entries are on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

# Modules that the import graph reaches from inside functions which Quern never calls.
EXCLUDED_MODULES = (
    # torch: compiling graphs, exporting them, tests of torch itself; and what only those import. Its optimizers need
    # _dynamo, _inductor and sympy, so what trains models has to take these three in again.
    "torch._inductor", "torch._dynamo", "torch._export.db", "torch.onnx", "torch.quantization.fx", "functorch",
    "torch.testing._internal.common_utils", "torch.testing._internal.common_device_type",
    "torch.testing._internal.common_methods_invocations", "torch.testing._internal.distributed",
    "torch.testing._internal.opinfo", "torch.testing._internal.generated", "torch.utils.tensorboard",
    "torch.utils.benchmark", "torch.utils.bottleneck", "torch.utils.model_dump", "torch.utils.viz",
    "torch.utils.hipify", "torch.distributed.checkpoint", "torch.distributed._composable", "torch.distributed._tools",
    "torch.distributed._shard", "torch.distributed.elastic", "torch.distributed.pipelining",
    "torch.distributed.benchmarks", "torch.distributed.launcher", "torch.distributed.optim",
    "torch.fx.experimental.migrate_gradual_types", "torchgen.gen", "torchgen.static_runtime",
    "sympy", "mpmath", "networkx", "triton", "expecttest",
    # llama-cpp-python: its own high-level classes and server; Quern calls the C functions
    "llama_cpp.llama", "llama_cpp.llama_cache", "llama_cpp.llama_chat_format", "llama_cpp.llama_grammar",
    "llama_cpp.llama_speculative", "llama_cpp.llama_tokenizer", "llama_cpp.server", "llama_cpp.mtmd_cpp",
    "llama_cpp._internals", "diskcache",
    # downloads: dependencies of the tokenizer's package that only its download function imports
    "huggingface_hub", "hf_xet", "requests", "urllib3", "httpx", "httpx2", "httpcore2", "anyio", "certifi",
    "truststore", "fsspec", "yaml",
    # other programs' frameworks, where a package can do without
    "transformers", "safetensors.torch", "safetensors.flax", "safetensors.paddle", "safetensors.tensorflow",
    "matplotlib", "pandas", "scipy", "h5py", "PIL", "IPython", "jupyter_client", "ipykernel", "trio", "colorama",
    "pyqtgraph.examples", "pyqtgraph.opengl", "pyqtgraph.jupyter", "OpenGL", "cupy", "numba",
    "numpy.f2py", "numpy.testing", "numpy.distutils", "numpy.conftest",
    "setuptools", "pkg_resources", "distutils", "pip", "wheel",
    "tkinter", "turtle", "turtledemo", "idlelib", "lib2to3", "pydoc_data", "ensurepip", "venv", "test",
    "rich.__main__", "rich.diagnose", "pygments.sphinxext", "prompt_toolkit.contrib", "psutil.tests",
    "readline", "curses", "_curses", "dbm", "_gdbm", "_dbm",  # the terminal's editor is prompt_toolkit
    "zstandard", "brotli", "backports.zstd", "fontTools", "cyclonedx", "elftools", "PyInstaller", "packaging",
)  # fmt: skip

# Packages that read files beside their modules, and that PyInstaller has no hook for: formulas and their fonts.
WITH_DATA = ("latex2mathml", "ziamath", "ziafont")

# Qt's plugins that the window uses, by folder. The rest draws on bare hardware, serves QML, or speaks to networks.
QT_PLUGINS = {
    "platforms": {"qxcb", "qwayland", "qoffscreen", "qminimal", "qwindows", "qcocoa"},
    "platforminputcontexts": {"ibusplatforminputcontextplugin", "composeplatforminputcontextplugin"},
    "platformthemes": {"qgtk3", "qxdgdesktopportal"},
    "imageformats": {"qsvg", "qjpeg", "qgif", "qwebp", "qico"},
    "iconengines": {"qsvgicon"},
    "xcbglintegrations": {"qxcb-egl-integration", "qxcb-glx-integration"},
    "wayland-shell-integration": {"xdg-shell"},
    "wayland-decoration-client": {"adwaita", "bradient"},
    "wayland-graphics-integration-client": {"qt-plugin-wayland-egl"},
    "styles": {"qmodernwindowsstyle", "qmacstyle"},
    "generic": set(),
}
QT_MODULES = ("Core", "DBus", "Gui", "Network", "OpenGL", "OpenGLWidgets", "Svg", "Widgets", "XcbQpa", "WaylandClient",
              "WaylandEglClientHwIntegration")  # fmt: skip
_QT_FOLDERS_OF_NO_USE = frozenset({"qml", "metatypes", "libexec", "typesystems", "glue", "include", "doc"})
QT_LANGUAGES = ("zh_CN",)  # Qt's own dialogs; English is built in

# What Python's own extensions need of the system, taken along because versions differ between distributions.
FROM_THE_SYSTEM = (
    "libpython3", "libcrypto", "libssl", "libffi", "libsqlite3", "libbz2", "liblzma", "libz", "libzstd", "libuuid",
    "libexpat", "libgomp",
    # xcb's helper libraries and the keyboard's: small, stable, and the ones that fresh systems lack
    "libxcb-cursor", "libxcb-icccm", "libxcb-image", "libxcb-keysyms", "libxcb-render-util", "libxcb-util",
    "libxcb-xkb", "libxkbcommon", "libxkbcommon-x11",
)  # fmt: skip

_TORCH_LEFT = re.compile(
    r"torch/bin/(?!torch_shm_manager$)"
    r"|torch/(?:include|share|test|testing|_inductor|_dynamo|utils/benchmark|utils/model_dump|lib/libshm_windows)(?:/|$)"
    r"|torch/lib/lib(?:torchbind_test|jitbackend_test|backend_with_compiler|aoti_custom_ops|c10d_cuda_test)\."
    r"|\.(?:h|hpp|cuh|cpp|cu|a|lib|cmake|pyi|jinja2?|ipynb)$"
)
_TESTS = re.compile(r"(?:^|/)(?:tests?|testing|conftest\.py|examples?)/")
_SHARED = re.compile(r"\.(?:so(?:\.[\d.]+)?|dylib|dll|pyd)$")
_KEPT_TEXTS = re.compile(r"\.dist-info/(?:METADATA|RECORD|licenses/|LICEN[CS]E|COPYING|NOTICE)|(?:^|/)resources/")


def distributions_of(modules: Iterable[str], owners: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the packages, sorted, that the modules belong to, for their metadata and licences.

    `owners` says which packages hold a top-level module, as importlib.metadata.packages_distributions() does.
    """
    tops = {module.split(".")[0] for module in modules}
    return sorted({owner for top in tops for owner in owners.get(top, ())}, key=str.lower)


def is_wanted(name: str) -> bool:
    """Says whether the file `name`, its path in the bundle with slashes, goes in. Knows nothing of Python modules."""
    if name.endswith(".pyc"):
        return True
    if name.startswith("PySide6/"):
        return _is_wanted_of_qt(name)
    if name.startswith("torch/") and _TORCH_LEFT.search(name):
        return False
    if ".dist-info/" in name:
        return bool(re.search(r"\.dist-info/(?:METADATA|licenses/.*|LICEN[CS]E.*|COPYING.*|NOTICE.*|AUTHORS.*)$", name))
    return not _TESTS.search(name) or bool(_KEPT_TEXTS.search(name))


def _is_wanted_of_qt(name: str) -> bool:
    path = PurePosixPath(name)
    parts = path.parts
    if "plugins" in parts[:-1]:
        folder = parts[parts.index("plugins") + 1]
        return _stem(path.name) in QT_PLUGINS.get(folder, set())
    if "translations" in parts[:-1]:
        return any(path.name == f"qtbase_{language}.qm" for language in QT_LANGUAGES)
    if path.suffix == ".pyi" or _QT_FOLDERS_OF_NO_USE & set(parts[:-1]):
        return False
    told = re.match(r"(?:lib)?Qt6?(\w+?)(?:\.abi3|\.so|\.dll|\.dylib|\.pyd|$)", path.name)
    return told is None or told[1] in QT_MODULES


def _stem(file: str) -> str:
    stem = file.split(".")[0]
    return stem.removeprefix("lib")


def is_system_library_wanted(file: str) -> bool:
    """Says whether a library that lies in the system's folders is taken along ("libffi.so.8").

    What draws (GL, X11, Wayland, fonts) must match the computer's drivers and settings, and libstdc++ must be at least
    as new as what its drivers were built with: those come from the system, and the packages declare them.
    """
    stem = re.sub(r"\.so.*$", "", file)
    return any(stem == known or (known == "libpython3" and stem.startswith(known)) for known in FROM_THE_SYSTEM)


def is_shared_library(file: str) -> bool:
    """Says whether a file's name is that of native code."""
    return bool(_SHARED.search(file))


# The rows of the table of sizes: a title and the beginnings of paths that it counts.
PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("torch: libraries", ("torch/lib/",)),
    ("torch: Python code", ("torch/", "torchgen/", "functorch/")),
    ("starter model", ("resources/models/",)),
    ("Qt: ICU data", ("PySide6/Qt/lib/libicu",)),
    ("Qt: libraries", ("PySide6/Qt/lib/", "PySide6/Qt6")),
    ("Qt: plugins, translations", ("PySide6/Qt/",)),
    ("Qt: Python bindings", ("PySide6/", "shiboken6/")),
    ("llama.cpp", ("llama_cpp/",)),
    ("numpy: libraries", ("numpy.libs/",)),
    ("numpy", ("numpy/",)),
    ("fonts", ("resources/fonts/",)),
    ("Quern: texts, icons, translations", ("resources/",)),
    ("tokenizers", ("tokenizers/",)),
    ("llguidance", ("llguidance/",)),
    ("Python: standard library", ("base_library.zip", "lib-dynload/", "python3")),
    ("Python: interpreter", ("libpython3",)),
    ("metadata and licences", ("licences/",)),
    ("system libraries", ("lib",)),
)


def part_of(name: str) -> str:
    """Returns the row of the table of sizes that the file `name` in the bundle belongs to."""
    if ".dist-info/" in name:
        return "metadata and licences"
    return next((title for title, starts in PARTS if name.startswith(starts)), "other packages")
