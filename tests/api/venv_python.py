"""Runs a test again under the Python that has its packages."""
import os
import pathlib
import sys

VENV = pathlib.Path(os.environ.get("HADAL_TEST_VENV") or
                    pathlib.Path(__file__).resolve().parents[2] / "build/test-venv")


def use_venv():
    """Replaces this process by the venv's Python; does nothing inside it or where there is none."""
    python = VENV / "bin/python"
    if python.exists() and pathlib.Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(python, [str(python), *sys.argv])
