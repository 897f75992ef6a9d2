"""A small real package with plugins for ragcli, put into a folder as an installer would put it there."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

PYPROJECT: Final = """\
[project]
name = "ragcli-memos"
version = "1.4"

[project.entry-points."ragcli.parsers"]
memo = "ragcli_memos.memo:parse"
several = "ragcli_memos.memo:parse_several"
wrong = "ragcli_memos.memo:parse_wrongly"
endless = "ragcli_memos.memo:parse_for_ever"

[project.entry-points."ragcli.encoders"]
words = "ragcli_memos.models:open_encoder"

[project.entry-points."ragcli.rerankers"]
shortest = "ragcli_memos.models:open_reranker"

[project.entry-points."ragcli.judges"]
agreeable = "ragcli_memos.judges:JUDGES"
"""

BROKEN_PYPROJECT: Final = """\
[project]
name = "ragcli-broken"
version = "0.1"

[project.entry-points."ragcli.parsers"]
brk = "ragcli_broken:parse"

[project.entry-points."ragcli.rerankers"]
broken = "ragcli_broken:open_reranker"
"""

SOURCES: Final = {
    "ragcli_memos/__init__.py": "",
    "ragcli_memos/memo.py": '''\
"""Memos: a title, an empty line, the text, in capitals that stand for small letters."""

import os
import time

from ragcli.errors import DocumentError
from ragcli.types import Document


def parse(content, path, options, on_page_count):
    if not content:
        raise DocumentError(f"{path.name} has no memo in it.")
    title, _, text = content.decode().partition("\\n\\n")
    metadata = {"process": os.getpid(), "author": "Ada Lovelace; Alan Turing"}
    return [Document(text=text.lower(), kind="memo", title=title, metadata=metadata)]


def parse_several(content, path, options, on_page_count):
    for number, text in enumerate(content.decode().split("\\n--\\n"), 1):
        yield Document(text=text, kind="memo", record_id=str(number))


def parse_wrongly(content, path, options, on_page_count):
    return ["no document"]


def parse_for_ever(content, path, options, on_page_count):
    time.sleep(60)
''',
    "ragcli_memos/models.py": '''\
"""An encoder that knows words by their hash alone, and a reranker that likes short passages."""

import os
import zlib

import numpy as np

from ragcli.models import Encoding


class WordEncoder:
    engine = "memos"
    dimension = 64
    vocabulary_size = 1 << 12

    def __init__(self, model):
        self.name = f"plugin:words{':' + model if model else ''}"
        self.fingerprint = os.environ.get("MEMOS_FINGERPRINT", "5" * 64)

    def encode(self, texts):
        return np.stack([each.vector for each in self.encode_tokens(texts)])

    def encode_tokens(self, texts):
        encodings = []
        for text in texts:
            ids = np.asarray([zlib.crc32(word.encode()) % self.vocabulary_size for word in text.lower().split()] or [0])
            rows = np.stack([np.random.default_rng(each).standard_normal(self.dimension) for each in ids])
            rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
            mean = rows.sum(axis=0)
            encodings.append(Encoding(mean / np.linalg.norm(mean), rows, ids.astype(np.int32)))
        return encodings


class ShortestFirst:
    name = "plugin:shortest"

    def score(self, query, texts):
        return np.asarray([-len(text) for text in texts], np.float32)


def open_encoder(model, *, notify):
    return WordEncoder(model)


def open_reranker(model, *, notify, key_env):
    notify(f"ranking by length ({model or 'no model'}, {key_env or 'no key'})")
    return ShortestFirst()
''',
    "ragcli_memos/judges.py": '''\
"""Judges that agree with everything."""

from ragcli.grounding.faithfulness.claims import Support
from ragcli.grounding.sufficiency.evidence import Decision


class AlwaysEnough:
    name = "plugin:agreeable"

    def judge(self, evidence, preset="balanced"):
        return Decision(True, 1.0, 0.5, ("PASS",), "Anything is enough.", {}, self.name)


class AlwaysSupported:
    name = "plugin:agreeable"

    def judge(self, claims):
        return tuple(Support(claim.text, True, 1.0) for claim in claims)


class Judges:
    def sufficiency(self, collections):
        return AlwaysEnough()

    def faithfulness(self, searcher):
        return AlwaysSupported()


JUDGES = Judges()
''',
}
BROKEN_SOURCES: Final = {"ragcli_broken.py": 'import sys\n\nsys.exit("libfoo.so:\\n  not found")\n'}


def install(folder: Path, pyproject: str = PYPROJECT, sources: dict[str, str] | None = None) -> Path:
    """Put a package where `pip install --target folder` would; the folder, to be named in PYTHONPATH.

    The metadata are those that a build of `pyproject` gives: name, version and entry points.
    """
    project = tomllib.loads(pyproject)["project"]
    for name, text in (SOURCES if sources is None else sources).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    about = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (about / "INSTALLER").write_text("pip\n")
    groups = project["entry-points"].items()
    (about / "entry_points.txt").write_text(
        "\n".join(f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in of.items()) for group, of in groups)
    )
    return folder


def install_broken(folder: Path) -> Path:
    """A package that ends its process when it is imported."""
    return install(folder, BROKEN_PYPROJECT, BROKEN_SOURCES)
