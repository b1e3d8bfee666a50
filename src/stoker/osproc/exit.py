"""How a process ended, as a value: whoever reports it chooses the words."""

import signal
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ProcessExit:
    code: int
    """The exit code; negative: the number of the signal that killed the process. This is what
    `os.waitstatus_to_exitcode` and asyncio's `returncode` give."""
    explanation: str = ""
    """Why the process ended, where more is known than the code tells."""
    parent: "ProcessExit | None" = None
    """How the parent ended, if the process died with it."""

    @property
    def signal(self) -> int | None:
        """The signal that killed the process; None if it exited by itself."""
        return -self.code if self.code < 0 else None

    @property
    def shell_code(self) -> int:
        """The exit code that a shell shows: 128 plus the signal for a process that was killed."""
        return self.code if self.code >= 0 else 128 - self.code

    def describe(self) -> str:
        if self.explanation:
            return self.explanation
        if self.parent is not None:
            return f"killed because its parent process ended ({self.parent.describe()})"
        if self.signal is None:
            return f"exit code {self.code}"
        try:
            return f"killed by {signal.Signals(self.signal).name}"
        except ValueError:
            return f"killed by signal {self.signal}"
