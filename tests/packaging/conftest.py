"""Makes the set-up's scripts importable; packaging/ is no package and must never become one."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "packaging"))
