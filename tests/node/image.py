"""A container image that is busybox and nothing else, as an archive in the OCI layout."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

NAME = "node.test/busybox:1"
ENTRYPOINT = ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done"]
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def archive(busybox: str, applets: list[str]) -> bytes:
    """The archive; its containers stay until they are told to end."""
    blobs: dict[str, bytes] = {}

    def blob(kind: str, content: bytes, **more) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content), **more}

    layer = _layer(Path(busybox).read_bytes(), applets)
    tar = blob("layer.v1.tar", layer)
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": ENTRYPOINT, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [tar["digest"]]},
    }
    manifest = {"schemaVersion": 2, "config": blob("config.v1+json", _json(config)), "layers": [tar]}
    index = blob("manifest.v1+json", _json(manifest), annotations={"io.containerd.image.name": NAME})
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(_index(index)), **blobs}
    return _tar([(_entry(name, 0o644, content), content) for name, content in files.items()])


def _index(manifest: dict[str, object]) -> dict[str, object]:
    return {"schemaVersion": 2, "manifests": [manifest]}


def _layer(busybox: bytes, applets: list[str]) -> bytes:
    entries = [(_directory(name), b"") for name in ("bin", "tmp", "dev", "proc", "sys", "etc")]
    entries.append((_entry("bin/busybox", 0o755, busybox), busybox))
    for applet in applets:
        link = tarfile.TarInfo(f"bin/{applet}")
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        entries.append((link, b""))
    return _tar(entries)


def _directory(name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
    return entry


def _entry(name: str, mode: int, content: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size = mode, len(content)
    return entry


def _tar(entries: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for entry, content in entries:
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
