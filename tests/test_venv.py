"""`requirements/venv` makes `.venv` again and removes no foreign directory."""

import shutil
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "requirements" / "venv"


def test_what_a_link_leads_to_is_not_emptied(tmp_path):
    (tmp_path / "checkout" / "requirements").mkdir(parents=True)
    script = shutil.copy(SCRIPT, tmp_path / "checkout" / "requirements")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("whole")
    (tmp_path / "checkout" / ".venv").symlink_to(theirs)
    done = subprocess.run([script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f".venv is a link to {theirs}; what is there would be emptied" in done.stderr
    assert "rm .venv" in done.stderr
    assert (theirs / "file").read_text() == "whole"
