"""The progress file: what it says, and edits of it."""

from ralph.plan.progress.edits import *  # noqa: F403 - what is public in these two is what this package offers
from ralph.plan.progress.reading import *  # noqa: F403
from ralph.plan.progress.task import *  # noqa: F403
