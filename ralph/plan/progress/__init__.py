"""The progress file: parsing its text, and editing it."""

from ralph.plan.progress.edits import *
from ralph.plan.progress.reading import *
from ralph.plan.progress.task import *
