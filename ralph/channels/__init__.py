"""Channels: where notices and signs of life go, and how they get there."""

from ralph.channels.channel import Channel, Notice, configured, deliver, load, without_secrets
from ralph.channels.outbox import Outbox

__all__ = ["Channel", "Notice", "Outbox", "configured", "deliver", "load", "without_secrets"]
