"""What the tests share: the headers, a C compiler, and the stand-in library."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent
INCLUDE = HERE.parents[2] / "include"
sys.path.insert(0, str(PACKAGE))

from sefl._version import VERSION  # noqa: E402

_folder = tempfile.TemporaryDirectory()
FOLDER = Path(_folder.name)


STANDIN_VERSION = VERSION.rsplit(".", 1)[0] + ".99"  # another patch of this package's version


def compile_c(source: Path, out: Path, *options: str) -> Path:
    command = [os.environ.get("CC", "cc"), "-std=gnu11", "-Wall", "-Werror", f"-I{INCLUDE}"]
    subprocess.run([*command, str(source), "-o", str(out), *options], check=True)
    return out


def standin(version: str = STANDIN_VERSION) -> Path:
    """Builds the stand-in library (once per version) and returns its path."""
    out = FOLDER / f"standin-{version}.so"
    if not out.exists():
        define = f'-DSTANDIN_VERSION="{version}"'
        compile_c(HERE / "standin.c", out, "-shared", "-fPIC", "-pthread", define, "-lm")
    return out


def use_standin() -> None:
    """Makes the stand-in the library of this process; call it before the first use of sefl."""
    os.environ["SEFL_LIBRARY"] = str(standin())


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in another process with this package."""
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60
    )
