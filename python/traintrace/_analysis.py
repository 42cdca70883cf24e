"""What `traintrace analyze` and `traintrace report` say, as objects.  The program does the work; it is run as a process."""
from __future__ import annotations

import dataclasses
import html
import json
import os
import pathlib
import shutil
import subprocess
import sysconfig
import typing


class Error(RuntimeError):
    """The program is not there, or no trace could be read; says why."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A frame of a rank's code."""
    rank: int
    file: str = ""
    line: int | None = None
    function: str = ""
    language: str = ""

    def __str__(self):
        line = f":{self.line}" if self.line else ""
        return f"rank {self.rank}: {self.file}{line}" + (f" in {self.function}" if self.function else "")


@dataclasses.dataclass(frozen=True)
class Communicator:
    id: str = ""
    name: str = ""
    size: int | None = None


@dataclasses.dataclass(frozen=True)
class Finding:
    """One of the findings that `traintrace findings CODE` explains."""
    code: str
    severity: str
    certainty: str
    title: str
    culprits: list[int] = dataclasses.field(default_factory=list)
    victims: list[int] = dataclasses.field(default_factory=list)
    sides: list[list[int]] = dataclasses.field(default_factory=list)
    communicator: Communicator | None = None
    communicators: list[Communicator] = dataclasses.field(default_factory=list)
    sequence: int | None = None
    sequence_last: int | None = None
    operation: str = ""
    where: list[Place] = dataclasses.field(default_factory=list)
    values: dict[str, int] = dataclasses.field(default_factory=dict)
    evidence: list[str] = dataclasses.field(default_factory=list)
    advice: str = ""


@dataclasses.dataclass(frozen=True)
class Loss:
    """What was not recorded."""
    stat: str
    rank: int | None = None
    count: int = 0
    severity: str = ""
    advice: str = ""


@dataclasses.dataclass(frozen=True)
class Run:
    """What was analysed.  Times: ns since the epoch."""
    ranks: list[int] = dataclasses.field(default_factory=list)
    missing_ranks: list[int] = dataclasses.field(default_factory=list)
    world_size: int | None = None
    hosts: list[str] = dataclasses.field(default_factory=list)
    start_ns: int | None = None
    end_ns: int | None = None
    sources: list[str] = dataclasses.field(default_factory=list)
    records: int = 0


class Table(typing.List[typing.Dict[str, typing.Any]]):
    """Rows of a report, as dicts; a notebook shows them as a table."""

    @property
    def columns(self):
        return list(self[0]) if self else []

    def to_pandas(self):
        return pandas().DataFrame(list(self), columns=self.columns)

    def _repr_html_(self):
        return table_html(self.columns, ([row.get(column) for column in self.columns] for row in self))


@dataclasses.dataclass(frozen=True)
class Analysis:
    """What `traintrace analyze` says of one run; a notebook shows the verdict and the findings."""
    verdict: str
    findings: list[Finding]
    run: Run
    losses: list[Loss]
    json: dict  # all of it, of schema traintrace.findings/1
    paths: list[str]

    @property
    def errors(self):
        return [finding for finding in self.findings if finding.severity == "error"]

    def report(self, by="call"):
        """A table of `traintrace report --by=..` of the same traces."""
        return report(*self.paths, by=by)

    def to_pandas(self):
        """The findings, one a row."""
        names = [field.name for field in dataclasses.fields(Finding)]
        return pandas().DataFrame([dataclasses.asdict(finding) for finding in self.findings], columns=names)

    def __str__(self):
        return "\n".join([f"verdict: {self.verdict}"] + [f"{finding.severity} {finding.code} {finding.certainty}: {finding.title}"
                                                        for finding in self.findings])

    def _repr_html_(self):
        rows = ([finding.severity, finding.code, finding.certainty, finding.title, finding.culprits, Details(finding)] for finding in self.findings)
        return (f"<p><b>verdict:</b> {html.escape(self.verdict)}</p>"
                + table_html(["severity", "code", "certainty", "finding", "culprits", "evidence"], rows))


class Details:
    """Of a finding, what unfolds."""

    def __init__(self, finding):
        self.lines = [f"where: {place}" for place in finding.where] + finding.evidence
        self.lines += [f"advice: {finding.advice}"] if finding.advice else []

    def html(self):
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in self.lines)
        return f"<details><summary>{len(self.lines)} lines</summary><ul>{lines}</ul></details>"


def table_html(columns, rows):
    def cell(value):
        if isinstance(value, Details):
            return value.html()
        if isinstance(value, list):
            return html.escape(", ".join(map(str, value)))
        return "" if value is None else html.escape(str(value))
    style = ' style="text-align: left; vertical-align: top"'
    head = "".join(f"<th{style}>{html.escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td{style}>{cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def pandas():
    try:
        import pandas as found  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Error("to_pandas() needs pandas, which is not installed here") from error
    return found


def program():
    """Beside this package, as all packages of traintrace install it, or in the PATH."""
    folders = [pathlib.Path(__file__).resolve().parents[4] / "bin", pathlib.Path(sysconfig.get_path("scripts"))]
    for folder in folders:
        if os.access(folder / "traintrace", os.X_OK):
            return str(folder / "traintrace")
    found = shutil.which("traintrace")
    if found is None:
        raise Error(f"no program traintrace in {', '.join(map(str, folders))} or in the PATH")
    return found


def answer_of(*arguments):
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run([program(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", errors="replace",
                          env=environment, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise Error(done.stderr.strip() or f"traintrace ended with {done.returncode}")
    return json.loads(done.stdout)


def made(kind, fields):
    """Of a newer program it may have fields that are not known here."""
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in fields.items() if name in known})


def finding_of(fields):
    fields = dict(fields, where=[made(Place, place) for place in fields.get("where", [])],
                  communicators=[made(Communicator, each) for each in fields.get("communicators", [])])
    if "communicator" in fields:
        fields["communicator"] = made(Communicator, fields["communicator"])
    return made(Finding, fields)


def analyze(*paths, only=(), run=None, hang_after=None):
    """What is wrong in these traces: folders or files, of traintrace or another tool; by default ./traintrace.

    `only`: codes of findings.  `run`: which, where a folder has several.  `hang_after`: "5s".  Raises Error where nothing can be read.
    """
    paths = [os.fspath(path) for path in paths]
    options = [f"--only={','.join([only] if isinstance(only, str) else only)}"] if only else []
    options += [f"--run={run}"] if run is not None else []
    options += [f"--hang-after={hang_after}"] if hang_after is not None else []
    answer = answer_of("analyze", "--format=json", *options, "--", *paths)
    return Analysis(verdict=answer["verdict"], findings=[finding_of(each) for each in answer["findings"]], run=made(Run, answer.get("run", {})),
                    losses=[made(Loss, each) for each in answer.get("losses", [])], json=answer, paths=paths)


def report(*paths, by="call"):
    """A table of `traintrace report --by=..`; docs/commands.md has its columns."""
    return Table(answer_of("report", f"--by={by}", "--format=json", "--", *map(os.fspath, paths))["rows"])
