"""The tasks of a progress file, for --strict."""

from ralph.plan.progress.task import *
from ralph.plan.tasks.reading import *
