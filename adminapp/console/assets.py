"""Puts the front-end parts that npm installed into `static/vendor`, each named with its hash.

    python -m adminapp.console.assets [--modules DIR] [--target DIR]

Needs neither Django nor Node. Bootstrap's pictures stand in its stylesheet as `data:` addresses,
which a strict content security policy refuses: they become files of their own. The icons that
pages use become one sprite, so that a page never asks for an icon twice.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = "manifest.json"
BOOTSTRAP = "bootstrap/dist/css/bootstrap.min.css"
HTMX = "htmx.org/dist/htmx.min.js"
ICON_FOLDER = "@tabler/icons/icons/outline"
LICENCES = {
    "bootstrap": "bootstrap/LICENSE",
    "htmx": "htmx.org/LICENSE",
    "tabler-icons": "@tabler/icons/LICENSE",
}

# The icons that templates and Python code may name (a test holds the two lists together).
ICONS = (
    "activity", "alert-circle", "alert-triangle", "arrow-back-up", "arrow-right", "ban",
    "binary-tree", "bolt", "building", "calendar", "check", "checks", "chevron-down",
    "circle-check", "circle-dashed", "circle-x", "clock", "code", "copy", "download", "edit",
    "eye", "eye-off", "file-certificate", "filter", "fingerprint", "git-compare", "help",
    "history", "id-badge-2", "info-circle", "key", "layout-dashboard", "link", "list-check",
    "loader-2", "lock", "logout", "mail", "menu-2", "minus", "moon", "player-play",
    "plug-connected", "plus", "refresh", "report-search", "search", "server", "settings",
    "shield-check", "stack-2", "tags", "trash", "user", "user-off", "users", "users-group", "x",
)  # fmt: skip

_DATA_ADDRESS = re.compile(r'url\("data:image/svg\+xml,(?P<svg>[^"]+)"\)')
_SOURCE_MAP = re.compile(r"/[/*]# sourceMappingURL=[^\n*]*(\*/)?")
_SVG_BODY = re.compile(r"<svg[^>]*>(?P<body>.*)</svg>", re.DOTALL)


class MissingPackageError(Exception):
    """A file of an npm package is not there."""


def build(modules: Path, target: Path) -> dict[str, str]:
    """Fill `target` from the packages in `modules`; what is there already stays as it is.

    Returns: the manifest, plain name -> name with hash, as it stands in `target/manifest.json`.
    Raises: MissingPackageError when a package is not installed.
    """
    files = _vendor_files(modules)
    fresh = target.with_name(target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    manifest = {name: _store(fresh, name, data) for name, data in files.items()}
    manifest["bootstrap.css"] = _store(
        fresh, "bootstrap.css", _bootstrap(_read(modules, BOOTSTRAP), fresh).encode()
    )
    for name, path in LICENCES.items():
        (fresh / f"{name}.LICENSE.txt").write_bytes(_read(modules, path))
    (fresh / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", "utf-8")
    if _contents(fresh) == _contents(target):
        # Pages may be served from it just now, and would miss what is taken away for a moment.
        shutil.rmtree(fresh)
        return manifest
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    return manifest


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*")}


def sprite(folder: Path, names: tuple[str, ...]) -> str:
    """One SVG file with a `<symbol>` for each of `names`, read from `folder`.

    Raises: MissingPackageError when an icon is not there.
    """
    symbols = []
    for name in names:
        match = _SVG_BODY.search(_read(folder, f"{name}.svg").decode())
        if match is None:
            raise MissingPackageError(f"icon `{name}` is not an SVG file")
        body = " ".join(match["body"].split())
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{body}</symbol>')
    return '<svg xmlns="http://www.w3.org/2000/svg">' + "".join(symbols) + "</svg>\n"


def _vendor_files(modules: Path) -> dict[str, bytes]:
    return {
        "htmx.js": _without_source_map(_read(modules, HTMX).decode()).encode(),
        "icons.svg": sprite(modules / ICON_FOLDER, ICONS).encode(),
    }


def _bootstrap(stylesheet: bytes, folder: Path) -> str:
    def to_file(match: re.Match[str]) -> str:
        picture = unquote(match["svg"]).encode()
        return f'url("{_store(folder, "bootstrap-picture.svg", picture)}")'

    return _without_source_map(_DATA_ADDRESS.sub(to_file, stylesheet.decode()))


def _without_source_map(text: str) -> str:
    # A source map is not shipped, and a browser's tools would ask for it in vain.
    return _SOURCE_MAP.sub("", text)


def _store(folder: Path, name: str, data: bytes) -> str:
    stem, suffix = name.rsplit(".", 1)
    hashed = f"{stem}.{hashlib.sha256(data).hexdigest()[:12]}.{suffix}"
    (folder / hashed).write_bytes(data)
    return hashed


def _read(folder: Path, path: str) -> bytes:
    try:
        return (folder / path).read_bytes()
    except FileNotFoundError:
        raise MissingPackageError(f"`{path}` is missing: run `npm ci` first") from None


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns: the exit status."""
    parser = argparse.ArgumentParser(prog="python -m adminapp.console.assets", description=__doc__)
    parser.add_argument("--modules", type=Path, default=ROOT / "node_modules")
    parser.add_argument("--target", type=Path, default=ROOT / "static" / "vendor")
    options = parser.parse_args(arguments)
    try:
        manifest = build(options.modules, options.target)
    except MissingPackageError as error:
        print(f"front-end parts: {error}", file=sys.stderr)
        return 1
    print(f"front-end parts: {len(manifest)} files in {options.target.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
