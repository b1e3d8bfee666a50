"""The text of `stoker --help`: every command on one screen of 24 lines and 80 columns."""

from itertools import zip_longest

JOBS = {
    "run": "run a job and watch it",
    "info": "print the graph of a job",
    "list": "list jobs",
    "status": "show one job",
    "wait": "watch a job to its end",
    "logs": "print a job's output",
    "rows": "print what a SELECT gave",
    "cancel": "end a job",
    "queue": "list queues",
    "quarantine": "jobs that cannot load",
}
STREAMING = {
    "stop": "end with a savepoint",
    "savepoint": "take, list, show, remove",
    "checkpoint": "trigger, list, verify",
    "upgrade": "run a new version",
    "rescale": "repartition its state",
}
CLUSTER = {
    "cluster": "local: up, down, logs",
    "master": "run a master here",
    "task-executor": "run one here",
    "drain": "retire an executor",
    "shutdown": "end it for good",
    "token": "create, list, revoke",
    "events": "what happened when",
    "audit": "who changed what",
}
MORE = {
    "init": "write a small project",
    "config": "show the options",
    "completion": "for bash, zsh and fish",
    "demo": "see it at work",
}
_COLUMN = 39
_OPTIONS = """\
Options, before or after the command; stoker COMMAND --help tells more:
  -m, --master URL  the master, else $STOKER_MASTER, else client.master
  --config FILE     read FILE, not stoker.yml  -D KEY=VALUE  set an option
  --json            answer in JSON             --version, -h, --help
"""


def overview() -> str:
    left = [*_group("Jobs", JOBS, 12), *_group("More", MORE, 12)]
    right = [*_group("Streaming jobs", STREAMING, 15), *_group("Cluster", CLUSTER, 15)]
    rows = [
        f"{first:<{_COLUMN}}{second}".rstrip()
        for first, second in zip_longest(left, right, fillvalue="")
    ]
    return "\n".join(
        [
            "Usage: stoker COMMAND [OPTIONS] [ARGS]...",
            "  Run PySpark jobs on a cluster that never loses an accepted job.",
            *rows,
            "",
            _OPTIONS.rstrip(),
        ]
    )


def _group(title: str, words: dict[str, str], width: int) -> list[str]:
    return [f"{title}:", *(f"  {name:<{width}}{text}" for name, text in words.items())]
