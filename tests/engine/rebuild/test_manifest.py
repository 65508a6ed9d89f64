"""kafkafs-rebuild.json, whatever names of folders and files are in it."""

import json
import os
from pathlib import Path

from engine.rebuild.target.manifest import (
    COMPLETE,
    FORMAT,
    compare,
    hash_file,
    parse_manifest,
    render_manifest,
)

NAME = os.fsdecode(b"caf\xe9-0")


def test_a_name_that_is_not_utf8_is_no_lone_surrogate_in_the_manifest() -> None:
    facts = {
        "format": FORMAT,
        "unread": [{"path": f"/data/{NAME}", "reason": "x"}],
        NAME: (1, None),
    }
    found = parse_manifest(render_manifest(facts), path="")
    json.dumps(found, ensure_ascii=False).encode()
    assert found["unread"][0]["path"] == "/data/caf\\xe9-0"
    assert found["caf\\xe9-0"] == [1, None]


def test_a_file_with_such_a_name_is_compared(tmp_path: Path) -> None:
    path = tmp_path / NAME / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(b"abc")
    file = {"path": f"{NAME}/{path.name}", "size": 3, "sha256": hash_file(str(path))}
    made = render_manifest({"format": FORMAT, "state": COMPLETE, "files": [file]})
    manifest = parse_manifest(made, path="")
    assert list(compare(str(tmp_path), manifest)) == []
    path.write_bytes(b"abd")
    (difference,) = compare(str(tmp_path), manifest)
    assert difference.reason == "its bytes differ"
