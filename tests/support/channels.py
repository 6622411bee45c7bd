"""Channels that tests share: built once a run, because the large archive takes seconds."""

from __future__ import annotations

from pathlib import Path

from resume_dl.demo.channel import ChannelInfo, build_channel, pytorch_like


def build_pytorch_channels(root: Path, *, large: int = 1 << 20, medium: int = 200_000) -> dict[str, ChannelInfo]:
    """``root/pytorch`` and ``root/pkgs/main`` as two channels; sizes in bytes (see ``pytorch_like``)."""
    return {
        name: build_channel(root / name, packages)
        for name, packages in pytorch_like(large=large, medium=medium).items()
    }
