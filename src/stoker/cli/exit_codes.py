"""The exit codes of the command `stoker`."""

OK = 0
FAILED = 1
"""The job failed or was cancelled, or the command could not do what was asked."""
USAGE = 2
"""The command line, an option or the configuration is wrong; nothing was done."""
FATAL = 2
"""An error ended `stoker master` or `stoker task-executor` after its start."""
INTERRUPTED = 130
"""Ctrl-C."""
