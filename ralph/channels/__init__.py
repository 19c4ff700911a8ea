"""Channels: where notices and signs of life go, and how they get there."""

from ralph.channels.channel import Channel, configured, default_folders, load, settings_names
from ralph.channels.delivery import Heartbeat, Outbox, deliver, fetch, without_secrets
from ralph.channels.dialects import Notice

__all__ = [
    "Channel",
    "Heartbeat",
    "Notice",
    "Outbox",
    "configured",
    "default_folders",
    "deliver",
    "fetch",
    "load",
    "settings_names",
    "without_secrets",
]
