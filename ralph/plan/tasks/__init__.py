"""The tasks of a progress file, for --strict."""

from ralph.plan.progress.task import *  # noqa: F403 - what is public there is what this package offers
from ralph.plan.tasks.reading import *  # noqa: F403
