"""Puts the shared library into the package. Cargo builds it, unless PETASOS_LIBRARY names one."""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent


def library() -> Path:
    """The shared library, built if necessary."""
    made = os.environ.get("PETASOS_LIBRARY")
    if made:
        return Path(made)
    root = HERE.parent
    if not (root / "crates" / "capi" / "Cargo.toml").is_file():
        raise SystemExit("petasos is installed from a checkout: `pip install ./python`")
    command = ["cargo", "build", "--profile", "production", "--locked"]
    command += ["--package", "petasos-capi", "--lib"]
    try:
        subprocess.run(command, cwd=root, check=True)
    except FileNotFoundError:
        raise SystemExit("petasos needs cargo, see https://rustup.rs") from None
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    return root / target / "production" / "libpetasos_capi.so"


class BuildWithLibrary(build_py):
    """Copies the package, then the library into it."""

    def run(self) -> None:
        super().run()
        source = HERE / "src" if self.editable_mode else Path(self.build_lib)
        folder = source / "petasos"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library(), folder / "libpetasos.so")


class PlatformWheel(bdist_wheel):
    """A wheel for any Python 3 on this platform: nothing is compiled against Python."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class PlatformDistribution(Distribution):
    """Contains a shared library, so it is specific to a platform."""

    def has_ext_modules(self) -> bool:
        return True


setup(
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    distclass=PlatformDistribution,
)
