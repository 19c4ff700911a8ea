"""What the public gets: the package is whole, and workflows run only what they name."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from ralph_driver import CHECKOUT

WORKFLOWS = {file.name: file.read_text("utf-8") for file in (CHECKOUT / ".github" / "workflows").glob("*.yml")}


def built(kind: str, source: Path, folder: Path) -> Path:
    """The sdist or the wheel of this source, made offline."""
    command = [sys.executable, "-P", "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=source, env=os.environ | {"PIP_NO_INDEX": "1"}, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return made


def test_the_wheel_that_is_built_from_the_sdist_is_that_of_the_checkout_and_runs(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling builds the package")
    sdist = built("sdist", CHECKOUT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert not (source / ".ci").exists()
    wheel = built("wheel", source, tmp_path / "wheel")
    of_checkout = built("wheel", CHECKOUT, tmp_path / "other")
    with zipfile.ZipFile(wheel) as archive, zipfile.ZipFile(of_checkout) as other:
        assert sorted(archive.namelist()) == sorted(other.namelist())
        assert {"ralph/py.typed", "ralph/data/prompts/PROMPT_build.md", "ralph/data/notify/slack.toml"} <= set(
            archive.namelist()
        )
        archive.extractall(tmp_path / "site")
    command = [sys.executable, "-P", "-m", "ralph", "--version"]
    env = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("ralph 2.")


def test_on_a_package_index_pictures_and_links_lead_to_the_project_and_its_tag(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling builds the package")
    source = tmp_path / "source"
    shutil.copytree(CHECKOUT, source, ignore=shutil.ignore_patterns(".*", "docs", "tests"))
    project = "https://github.com/you/ralph"
    subprocess.run([sys.executable, CHECKOUT / ".github" / "addresses.py", project, "v2.0.0", source], check=True)
    with zipfile.ZipFile(built("wheel", source, tmp_path / "wheel")) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith("/METADATA"))
        metadata = archive.read(name).decode()
    assert f"Project-URL: Homepage, {project}\n" in metadata
    assert f"Project-URL: Changelog, {project}/blob/v2.0.0/CHANGELOG.md\n" in metadata
    assert f'src="{project}/raw/v2.0.0/docs/pictures/live-light.svg" alt="' in metadata
    assert f'srcset="{project}/raw/v2.0.0/docs/pictures/live-dark.svg"' in metadata
    assert f"]({project}/blob/v2.0.0/docs/limitations.md)" in metadata
    targets = re.findall(r'(?:src|srcset)="([^"]*)|\]\(([^)]*)', metadata)
    assert [one for one in map("".join, targets) if not one.startswith("https://")] == []
    assert "addresses.py" in (CHECKOUT / ".github" / "package").read_text("utf-8")


def test_actions_are_pinned_by_hash_and_get_no_more_than_they_need() -> None:
    assert set(WORKFLOWS) == {"ci.yml", "release.yml"}
    for name, text in WORKFLOWS.items():
        used = re.findall(r"uses: (.*)", text)
        assert used
        assert [one for one in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", one)] == [], name
        assert "\npermissions:\n  contents: read\n" in text
        assert text.count("actions/checkout@") == text.count("persist-credentials: false")
        assert "secrets." not in text
    written = re.findall(r"[\w-]+: write", "".join(WORKFLOWS.values()))
    assert written == ["id-token: write"]


def test_a_tag_that_is_not_the_version_is_not_released() -> None:
    refused = subprocess.run([CHECKOUT / ".github" / "package", "v0.0.1"], check=False, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "the tag is v0.0.1, but ralph/__init__.py says 2." in refused.stderr
    assert '.github/package "$GITHUB_REF_NAME"' in WORKFLOWS["release.yml"]


def test_what_is_left_out_on_macos_is_there_and_has_a_reason() -> None:
    lines = (CHECKOUT / ".github" / "macos-skips.txt").read_text("utf-8").splitlines()
    named = [line.split(maxsplit=1) for line in lines if not line.startswith("#")]
    assert named
    assert [words for words in named if len(words) != 2 or not (CHECKOUT / words[0]).exists()] == []
