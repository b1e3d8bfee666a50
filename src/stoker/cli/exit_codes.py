"""What the exit code of a command says."""

OK = 0
FAILED = 1
"""The job failed or was cancelled, or the command could not do what was asked."""
USAGE = 2
"""The command line, an option or the configuration is wrong; nothing was done."""
FATAL = 2
"""Of `stoker master` and `stoker task-executor`: it had started, and something broke it."""
INTERRUPTED = 130
"""Ctrl-C."""
